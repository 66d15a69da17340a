# Prelude of every probe: prints DONE when the attack succeeded, REFUSED and why when it did not.
import ctypes, errno, glob, mmap, os, shutil, signal, stat, subprocess, sys, tempfile, time

libc = ctypes.CDLL(None, use_errno=True)
IOPRIO_SET = 251 if os.uname().machine == "x86_64" else 30

def refused(why):
    print("REFUSED", why, flush=True)
    sys.exit(3)

def check(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

def own_directory():
    # The workspace where it can be written, else the private directory for temporary files.
    try:
        with open("probe-was-here", "w"):
            pass
        os.unlink("probe-was-here")
        return os.getcwd()
    except OSError:
        return tempfile.gettempdir()

def first_that_works(attempts):
    last = None
    for attempt in attempts:
        try:
            return attempt()
        except OSError as error:
            last = error
    raise last or OSError(errno.ENOENT, "nothing to attempt")

def main():
    try:
        attack()
    except OSError as error:
        refused(errno.errorcode.get(error.errno, str(error.errno)))
    print("DONE", flush=True)
