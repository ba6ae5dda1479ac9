"""Stands in for the platform's downloader: `-s URL -d FOLDER` copies $FAKE_ARCHIVE into FOLDER and notes its argv."""

import os
import shutil
import sys

with open(os.environ["FAKE_DOWNLOADER_ARGV"], "w") as notes:
    notes.write("\n".join(sys.argv[1:]))
folder = sys.argv[sys.argv.index("-d") + 1]
for name in os.listdir(os.environ["FAKE_ARCHIVE"]):
    shutil.copyfile(os.path.join(os.environ["FAKE_ARCHIVE"], name), os.path.join(folder, name))
sys.exit(int(os.environ.get("FAKE_DOWNLOADER_STATUS", "0")))
