#!/bin/sh
# Stands in for the driver's script for a container's end.
[ "$FAKE_POST_STOP" = hangs ] && exec tail -f /dev/null
exit "${FAKE_POST_STOP:-0}"
