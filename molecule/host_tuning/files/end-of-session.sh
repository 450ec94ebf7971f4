#!/bin/sh
# What happens when a user's last session ends: logind forgets the user, and deletes what is the user's in shared memory
# unless it was told not to. (Nodes have no pam_systemd, so that logind knows a user here by lingering alone.)
# Prints whether a semaphore of a rank is still there.
loginctl enable-linger rank
su rank -c 'python3 -c "import _multiprocessing as m; m.SemLock(1, 1, 1, \"/rank\", False)"'
loginctl disable-linger rank
for _ in 1 2 3 4 5 6; do
    sleep 0.5
    [ -e /dev/shm/sem.rank ] || break
done
if [ -e /dev/shm/sem.rank ]; then echo kept; else echo deleted; fi
rm -f /dev/shm/sem.rank
systemctl reset-failed
