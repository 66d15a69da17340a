//! A NULL-terminated array of C strings, built before a fork and only read after it.

use std::ffi::{CString, c_char};

/// `argv` or `envp` for `execve`.
#[derive(Debug)]
pub(crate) struct CStringArray {
    strings: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl CStringArray {
    /// Builds the array. Allocates: call it before the fork.
    pub(crate) fn new(strings: Vec<CString>) -> Self {
        // Moving a CString does not move its heap buffer, so the pointers stay valid as long as
        // `strings` is neither changed nor dropped, and nothing here changes it.
        let mut pointers: Vec<*const c_char> =
            strings.iter().map(|string| string.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Self { strings, pointers }
    }

    /// The array as C wants it.
    pub(crate) fn as_ptr(&self) -> *const *const c_char {
        debug_assert_eq!(self.strings.len().saturating_add(1), self.pointers.len());
        self.pointers.as_ptr()
    }
}
