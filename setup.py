from setuptools import setup

setup()  # all metadata is in setup.cfg
