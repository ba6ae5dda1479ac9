"""The GPU engine: the same command through mpirun, as ModelArts' Horovod/MPI/MindSpore-GPU engine starts it.

`choice` decides for it. On node 0, `engine` makes the `plan`, whose mpirun line is a pure function (`command`), and
`conductor` carries it out: mpirun starts a `shim` per rank, and the shims report to the `hub` over TCP. The other
nodes run `follower`: they see that an sshd is there and wait for node 0's end.
"""
