"""How the launchers of several nodes come to one rank table, and hear of each other's failures.

    choice          which way they meet
    contribution    what each brings; agreement: what becomes of all of it; roll: who has come (all pure)
    server, client  the meeting point at node 0, over sockets and wire's messages
    store_meeting   the same over a store: directory, etcd
    mpi             MPI tells where node 0's meeting point is
    liaison         the thread that holds a meeting; companions: the launcher's side of it

Three steps are the interface that each way fills in (`liaison.Meeting`): put, wait for all, watch.
"""
