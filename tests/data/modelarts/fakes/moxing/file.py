import os
import shutil
import signal


def copy(source, target):
    behaviour = os.environ.get("FAKE_MOXING")
    if behaviour == "fails":
        raise RuntimeError("the bucket is gone")
    if behaviour == "hangs":
        signal.pause()
    shutil.copyfile(source, target)
    if "FAKE_MOXING_COPIED" in os.environ:
        with open(os.environ["FAKE_MOXING_COPIED"], "a") as copied:
            copied.write("copied\n")
