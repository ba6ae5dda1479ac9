#!/bin/bash
# PID 1 of a node, inside its namespaces: node_init.sh HOSTNAME FOLDER PYTHON SHARED-PATH...
set -e
hostname "$1"
folder=$2 python=$3
shift 3
mount --make-rprivate /
# What is shared stays reachable while /tmp and /run are covered.
keep=$(mktemp -d /var/tmp/davincirun-lab.XXXXXX)
mount -t tmpfs tmpfs "$keep"
number=0
for path; do
    mkdir -p "$keep/$number"
    mount --rbind "$path" "$keep/$number"
    number=$((number + 1))
done
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
number=0
for path; do
    mkdir -p "$path"
    mount --move "$keep/$number" "$path"
    number=$((number + 1))
done
umount "$keep"
rmdir "$keep" 2>/dev/null || true
mkdir -p /run/sshd /root/.ssh
mount --bind "$folder/ssh" /root/.ssh
mount --bind "$folder/hosts" /etc/hosts
# A login's shell is neutral: this machine's own start-up files are no part of a node.
for path in .bashrc .profile .bash_profile .bash_login; do
    [ ! -e "/root/$path" ] || mount --bind "$folder/empty" "/root/$path"
done
mount -t proc proc /proc
echo ready
exec >/dev/null
# An init reaps orphans for ever.
exec "$python" -I -S -c 'import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
while True:
    signal.sigwait([signal.SIGCHLD])
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass'
