//! The table of NCCL's functions.
use crate::types::{Code, Communicator, DataType, UniqueId};
use std::ffi::{CStr, c_char, c_int, c_void};

/// Defines the table and its loading: a field, its symbol, and its type for each function.
macro_rules! functions {
    ($($field:ident $symbol:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// Addresses of the functions.
        #[derive(Debug)]
        pub struct Functions {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// Looks up all functions, or returns the names of those that are missing.
            ///
            /// # Safety
            /// - `find` returns the addresses of NCCL's functions.
            pub unsafe fn load(
                find: impl Fn(&CStr) -> Option<*mut c_void>,
            ) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    let $field = find($symbol);
                    if $field.is_none() {
                        missing.push($symbol.to_str().unwrap_or_default());
                    }
                )*
                let all = (|| Some(Self {
                    // SAFETY: an address of a function with this signature (the caller's obligation).
                    $($field: unsafe {
                        let address = $field?;
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(
                            address,
                        )
                    },)*
                }))();
                all.ok_or(missing)
            }
        }
    };
}

functions! {
    get_unique_id c"ncclGetUniqueId" (*mut UniqueId) -> Code;
    init_rank c"ncclCommInitRank" (*mut Communicator, c_int, UniqueId, c_int) -> Code;
    async_error c"ncclCommGetAsyncError" (Communicator, *mut Code) -> Code;
    abort c"ncclCommAbort" (Communicator) -> Code;
    destroy c"ncclCommDestroy" (Communicator) -> Code;
    finalize c"ncclCommFinalize" (Communicator) -> Code;
    group_start c"ncclGroupStart" () -> Code;
    group_end c"ncclGroupEnd" () -> Code;
    send c"ncclSend" (*const c_void, usize, DataType, c_int, Communicator, *mut c_void) -> Code;
    receive c"ncclRecv" (*mut c_void, usize, DataType, c_int, Communicator, *mut c_void) -> Code;
    all_gather c"ncclAllGather"
        (*const c_void, *mut c_void, usize, DataType, Communicator, *mut c_void) -> Code;
    error_string c"ncclGetErrorString" (Code) -> *const c_char;
}
