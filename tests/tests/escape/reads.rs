//! Reading what a command must not see: cases 1 to 9, 36.

use crate::{
    case::{Case, Control},
    judge,
};

const ROOT_VIEW: &[&str] = &["ENOENT", "EACCES", "EPERM"];

const CASES: &[Case] = &[
    Case::new(
        "1",
        "read a secret by its path",
        "print(open('@SECRET@').read())",
    ),
    Case::new(
        "1b",
        "read a secret of the home",
        "print(open('@OUTSIDE@/secret').read())",
    ),
    Case::new(
        "2",
        "read a secret through a symbolic link",
        r"
link = os.path.join(own_directory(), 'link')
os.symlink('@SECRET@', link)
print(open(link).read())",
    ),
    Case::new(
        "2b",
        "read a secret through a relative chain of links",
        r"
own = own_directory()
os.symlink('/' , os.path.join(own, 'top'))
os.symlink('top/@SECRET@', os.path.join(own, 'link'))
print(open(os.path.join(own, 'link')).read())",
    ),
    Case::new(
        "4",
        "read a secret through the root link of any process",
        r"
first_that_works([
    (lambda pid=pid: print(open('/proc/%s/root/@SECRET@' % pid).read()))
    for pid in os.listdir('/proc') if pid.isdigit() or pid == 'self'])",
    )
    .refused_by(ROOT_VIEW),
    Case::new(
        "4b",
        "read a secret through the working directory of any process",
        r"
first_that_works([
    (lambda pid=pid: print(open('/proc/%s/cwd/' % pid + '../' * 30 + '@SECRET@').read()))
    for pid in os.listdir('/proc') if pid.isdigit() or pid == 'self'])",
    )
    .refused_by(ROOT_VIEW),
    Case::new(
        "5",
        "list the daemon in /proc",
        "print(os.listdir('/proc/@DAEMON@/task'))",
    )
    .nested_may_lack(&["pid-namespace"]),
    Case::new(
        "5b",
        "find a process of the same user in /proc",
        "print(open('/proc/@SIBLING@/cmdline').read())",
    )
    .nested_may_lack(&["pid-namespace"]),
    Case::new(
        "6",
        "find a secret in the environment of any process",
        r"
for path in glob.glob('/proc/*/environ'):
    try:
        if b'@SESAME@' in open(path, 'rb').read():
            return
    except OSError:
        pass
refused('ABSENT')",
    )
    .refused_by(&["ABSENT"]),
    Case::new(
        "7",
        "find a descriptor that leaked into the command",
        r"
own = os.open('/proc/self/fd', os.O_RDONLY | os.O_DIRECTORY)
extra = {int(name) for name in os.listdir(own)} - {0, 1, 2, own}
held = []
for fd in extra:
    try:
        os.fstat(fd)
        held.append(fd)
    except OSError:
        pass  # the descriptor of the listing itself
if not held:
    refused('ABSENT')",
    )
    .before_control("exec 9</etc/passwd")
    .refused_by(&["ABSENT"]),
    Case::new(
        "9",
        "walk up from the working directory by descriptors",
        r"
fd = os.open('.', os.O_RDONLY | os.O_DIRECTORY)
for _ in range(40):
    fd = os.open('..', os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
print(os.read(os.open('@SECRET@'.lstrip('/'), os.O_RDONLY, dir_fd=fd), 99))",
    ),
    Case::new(
        "9b",
        "walk up from the working directory by paths",
        r"
os.chdir('/proc/self/cwd' + '/..' * 40)
print(open('@SECRET@'.lstrip('/')).read())",
    ),
    Case::new(
        "36",
        "watch directories outside for changes",
        r"
fd = check(libc.inotify_init1(0))
check(libc.inotify_add_watch(fd, b'@HOME@', 0xfff))
check(libc.inotify_add_watch(fd, b'@OUTSIDE@', 0xfff))",
    )
    .nested_may_lack(&["mount-namespace", "own-root"]),
    Case::new(
        "30",
        "open a file by its handle",
        r"
class Handle(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('f', ctypes.c_ubyte * 128)]
handle, mount = Handle(128, 0), ctypes.c_int()
check(libc.name_to_handle_at(-100, b'/', ctypes.byref(handle), ctypes.byref(mount), 0))
root = os.open('/', os.O_RDONLY | os.O_DIRECTORY)
check(libc.open_by_handle_at(root, ctypes.byref(handle), os.O_RDONLY))",
    )
    .refused_by(&["EPERM", "ENOSYS", "EOPNOTSUPP"])
    .control(Control::RootOnly),
    Case::new(
        "31",
        "get a handle of a file",
        r"
class Handle(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('f', ctypes.c_ubyte * 128)]
handle, mount = Handle(128, 0), ctypes.c_int()
check(libc.name_to_handle_at(-100, b'/usr', ctypes.byref(handle), ctypes.byref(mount), 0))",
    )
    .refused_by(&["EPERM", "ENOSYS"]),
    Case::new(
        "25",
        "open a device",
        r"
names = '''mem kmsg port sda sda1 vda kvm fuse autofs loop0 loop-control hwrng vsock vhost-net
net/tun uinput'''.split()
first_that_works([
    (lambda name=name: os.open('/dev/' + name, os.O_RDONLY | os.O_NONBLOCK)) for name in names])",
    )
    .refused_by(&["ENOENT", "EACCES"]),
];

#[test]
fn nothing_outside_can_be_read() {
    judge(CASES);
}
