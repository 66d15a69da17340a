//! Every system call that needs `unsafe`. Functions here are safe, take borrowed descriptors and
//! C strings, return `Errno`, allocate nothing unless they say so, and hold no policy.

#![expect(unsafe_code, reason = "the one place where raw system calls are made")]

pub mod socket;
