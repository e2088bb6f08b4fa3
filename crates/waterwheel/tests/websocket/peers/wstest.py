"""Runs wstest, the program of Autobahn's suite, with the arguments of that program. For Python 2.7.

`scripts/test --provide autobahn` makes a folder with the suite and the link `python2.7` to an interpreter; that link
has to run this script. The fuzzing server listens on a free port of 127.0.0.1, and prints it: `listening on PORT`.
"""

import os
import site
import sys

# Namespace packages of the suite need its folder as a site directory.
site.addsitedir(os.path.dirname(os.path.abspath(sys.executable)))

from autobahntestsuite.wstest import run
from twisted.internet import reactor

listen_anywhere = reactor.listenTCP


def listen_on_loopback(port, factory, *args, **options):
    bound = listen_anywhere(0, factory, interface="127.0.0.1")
    # Compared with the Host of requests.
    factory.externalPort = bound.getHost().port
    print("listening on %d" % factory.externalPort)
    return bound


reactor.listenTCP = listen_on_loopback
sys.exit(run())
