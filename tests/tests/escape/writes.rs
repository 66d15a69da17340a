//! Changing what is outside, or what others will run later: cases 11 to 41.

use std::{fs, os::unix::fs::MetadataExt, os::unix::fs::PermissionsExt};

use crate::{
    arena::Places,
    case::{Case, Control, target_is_unchanged, unchanged},
    judge,
};

const READ_ONLY: &[&str] = &["EACCES", "EROFS", "ENOENT", "EPERM"];
const METADATA: &[&str] = &["mount-namespace", "own-root"];

const CASES: &[Case] = &[
    Case::new(
        "11",
        "hard link to a file outside",
        r"
link = os.path.join(own_directory(), 'hard')
first_that_works([
    lambda: os.link('@OUTSIDE@/target', link),
    lambda: os.link('@VISIBLE@/target', link)])
with open(link, 'w') as file:
    file.write('changed')",
    )
    .refused_by(&["EXDEV", "EPERM", "EACCES", "ENOENT"]),
    Case::new(
        "19",
        "truncate a file that can be read",
        "os.truncate('@VISIBLE@/target', 0)",
    )
    .refused_by(READ_ONLY),
    Case::new(
        "19b",
        "truncate a file outside",
        "os.truncate('@OUTSIDE@/target', 0)",
    )
    .refused_by(READ_ONLY),
    Case::new(
        "19c",
        "create, rename and remove beside a file that can be read",
        r"
first_that_works([
    lambda: open('@VISIBLE@/new', 'w').close(),
    lambda: os.rename('@VISIBLE@/target', '@VISIBLE@/moved'),
    lambda: os.unlink('@VISIBLE@/target'),
    lambda: os.mkdir('@VISIBLE@/directory')])",
    )
    .refused_by(READ_ONLY)
    .after(|places| {
        for name in ["new", "moved", "directory"] {
            if places.visible.join(name).exists() {
                return Err(format!("{name} exists"));
            }
        }
        target_is_unchanged(places)
    }),
    Case::new(
        "20",
        "change the mode of a directory",
        "os.chmod('@VISIBLE@', 0o777)",
    )
    .refused_by(READ_ONLY)
    .nested_may_lack(METADATA)
    .after(|places| {
        let mode = fs::metadata(&places.visible)
            .expect("the directory")
            .permissions()
            .mode();
        if mode & 0o777 == 0o755 {
            Ok(())
        } else {
            Err(format!("mode {mode:o}"))
        }
    }),
    Case::new(
        "20b",
        "change the times of a file",
        "os.utime('@VISIBLE@/target', (1, 1))",
    )
    .refused_by(READ_ONLY)
    .nested_may_lack(METADATA)
    .after(|places| {
        let time = fs::metadata(places.visible.join("target"))
            .expect("the file")
            .mtime();
        if time == 1 {
            Err("the time changed".to_owned())
        } else {
            Ok(())
        }
    }),
    Case::new(
        "22",
        "set an extended attribute",
        "os.setxattr('@VISIBLE@/target', 'user.planted', b'1')",
    )
    .refused_by(READ_ONLY)
    .nested_may_lack(METADATA),
    Case::new(
        "39b",
        "leave a set-user-id program behind by chmod",
        r"
program = os.path.join(own_directory(), 'sx')
shutil.copy('/bin/true', program)
os.chmod(program, 0o4755)",
    )
    .refused_by(&["EPERM"]),
    Case::new(
        "39c",
        "create a file with the set-user-id bit",
        r"
os.close(os.open(os.path.join(own_directory(), 'sy'), os.O_CREAT | os.O_WRONLY, 0o4755))",
    )
    .refused_by(&["EPERM"]),
    Case::new(
        "24",
        "make a block device",
        "os.mknod(os.path.join(own_directory(), 'disk'), 0o600 | stat.S_IFBLK, os.makedev(8, 0))",
    )
    .refused_by(&["EPERM", "EACCES"])
    .control(Control::RootOnly)
    .after(|places| absent(places, "disk")),
    Case::new(
        "24b",
        "make a character device",
        "os.mknod(os.path.join(own_directory(), 'mem'), 0o600 | stat.S_IFCHR, os.makedev(1, 1))",
    )
    .refused_by(&["EPERM", "EACCES"])
    .control(Control::RootOnly)
    .after(|places| absent(places, "mem")),
    Case::new(
        "33",
        "copy into a file that is open for reading only",
        r"
source = os.path.join(own_directory(), 'source')
with open(source, 'w') as file:
    file.write('changed')
try:
    to = os.open('@VISIBLE@/target', os.O_RDWR)
except OSError:
    to = os.open('@VISIBLE@/target', os.O_RDONLY)
os.copy_file_range(os.open(source, os.O_RDONLY), to, 7)",
    )
    .refused_by(&["EBADF", "EACCES", "EROFS", "ENOENT"]),
    Case::new(
        "33b",
        "splice into a file that is open for reading only",
        r"
try:
    to = os.open('@VISIBLE@/target', os.O_RDWR)
except OSError:
    to = os.open('@VISIBLE@/target', os.O_RDONLY)
reader, writer = os.pipe()
os.write(writer, b'changed')
os.splice(reader, to, 7)",
    )
    .refused_by(&["EBADF", "EACCES", "EROFS", "ENOENT"]),
    Case::new(
        "35",
        "write to a file through its mapping and /proc/self/mem",
        r"
try:
    fd, shared = os.open('@VISIBLE@/target', os.O_RDWR), True
except OSError:
    fd, shared = os.open('@VISIBLE@/target', os.O_RDONLY), False
kind = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
rights = mmap.PROT_READ | (mmap.PROT_WRITE if shared else 0)
address = libc.mmap(None, 4096, rights, kind, fd, 0)
with open('/proc/self/mem', 'r+b', buffering=0) as memory:
    memory.seek(address)
    memory.write(b'changed')
if not shared:
    refused('PRIVATE')",
    )
    // The copy is the process's own; that the file stays as it was is the point.
    .refused_by(&["PRIVATE", "EACCES", "EPERM", "EIO", "ENOENT"]),
    Case::new(
        "37",
        "plant a profile for the next daemon",
        "open('@HOME@/.config/agentd/profiles/evil.toml', 'w').close()",
    )
    .refused_by(READ_ONLY)
    .prepare(|places| {
        let mut path = places.world.home.clone();
        for part in [".config", "agentd", "profiles"] {
            path.push(part);
            fs::create_dir(&path).expect("a directory");
            places.world.give(&path);
        }
    })
    .after(|places| {
        let planted = places
            .world
            .home
            .join(".config/agentd/profiles/evil.toml")
            .exists();
        if planted {
            Err("planted".to_owned())
        } else {
            Ok(())
        }
    }),
    Case::new(
        "37b",
        "plant a file beside the daemon's socket",
        "open(os.path.dirname('@SOCKET@') + '/planted', 'w').close()",
    )
    .refused_by(READ_ONLY),
    Case::new(
        "37c",
        "plant start-up files of the user",
        r"
first_that_works([
    (lambda name=name: open('@HOME@/' + name, 'a').close())
    for name in ('.bashrc', '.profile', '.gitconfig', '.ssh-authorized', '.pam_environment')])",
    )
    .refused_by(READ_ONLY)
    .after(
        |places| match fs::read_dir(&places.world.home).expect("the home").next() {
            None => Ok(()),
            Some(entry) => {
                let name = entry.expect("an entry").file_name();
                if name == ".local" {
                    Ok(())
                } else {
                    Err(format!("{} was planted", name.display()))
                }
            }
        },
    ),
    Case::new(
        "41",
        "plant a program in a directory of PATH",
        r"
first_that_works([
    (lambda place=place: open(os.path.join(place, 'planted-program'), 'w').close())
    for place in os.environ['PATH'].split(':')])",
    )
    .before_control("export PATH=$PATH:@OUTSIDE@")
    .refused_by(READ_ONLY),
    Case::new(
        "41b",
        "have libraries preloaded into commands",
        r"
if not any(name.startswith('LD_') for name in os.environ):
    refused('ABSENT')",
    )
    .before_control("export LD_LIBRARY_PATH=@OUTSIDE@")
    .refused_by(&["ABSENT"]),
];

fn absent(places: &Places, name: &str) -> Result<(), String> {
    let made = places.world.workspace.join(name).exists();
    if made {
        Err(format!("{name} was made"))
    } else {
        unchanged(&places.outside.join("target"))
    }
}

#[test]
fn nothing_outside_can_be_changed() {
    judge(CASES);
}
