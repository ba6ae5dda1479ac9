from davincirun.cli import run

run()
