//! Kernels, each compiled by the driver as a separate module on first use.
use super::context::Context;
use super::driver::{Code, describe};
use super::follow;
use super::machine_code::{LOAD, MachineCode};
use super::text::Text;
use crate::name::KernelId;
use crate::{Error, Grid, LaunchName, Program, Result, ptx};
use cust::sys;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Capacity of each compiler log, in bytes.
const LOG: usize = 16 << 10;

/// The programs registered with a device, and the kernels loaded from them.
#[derive(Debug, Default)]
pub struct Kernels {
    programs: RwLock<Vec<Known>>,
    loaded: RwLock<HashMap<KernelId, Slot>>,
    compiling: Mutex<Duration>,
}

/// Slot of a kernel. Its lock is held while the kernel is compiled, so other kernels can compile
/// concurrently.
type Slot = Arc<Mutex<Option<Loaded>>>;

/// A program, its PTX by architecture, and its machine code.
#[derive(Debug, Clone)]
struct Known {
    program: &'static Program,
    texts: Arc<[(u32, Text)]>,
    code: Arc<[MachineCode]>,
}

#[derive(Debug, Clone, Copy)]
struct Loaded {
    /// Size of the kernel's argument struct, in bytes.
    bytes: usize,
    /// The kernel's own module; `None` if the module is that of machine code.
    module: Option<sys::CUmodule>,
    function: Function,
    /// A number of threads per block, and how many such blocks are resident per multiprocessor.
    resident: Option<(u32, u32)>,
}

/// A kernel that can be launched while its context lives.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    pub handle: sys::CUfunction,
    /// Whether the kernel itself waits for the previous launch.
    pub follows: bool,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Send for Function {}

impl Kernels {
    pub fn add(&self, program: &'static Program) {
        let mut programs = self.programs.write().unwrap_or_else(PoisonError::into_inner);
        if !programs.iter().any(|known| std::ptr::eq(known.program, program)) {
            programs.push(Known::new(program));
        }
    }

    pub fn jit_ms(&self) -> f64 {
        self.compiling.lock().unwrap_or_else(PoisonError::into_inner).as_secs_f64() * 1e3
    }

    /// Returns the function of a kernel whose argument struct has `bytes` bytes; compiles it on first use.
    /// `context`, which owns `self`, must be current.
    pub fn function(&self, context: &Context, launch: LaunchName, bytes: usize) -> Result<Function> {
        let slot = self.slot(launch.kernel);
        let mut loaded = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = *loaded {
            // Two types may have the same kernel name.
            let same = loaded.bytes == bytes;
            return if same { Ok(loaded.function) } else { Err(other_size(launch, bytes, &[loaded.bytes])) };
        }
        let start = Instant::now();
        let result = self.load(context, launch, bytes);
        *self.compiling.lock().unwrap_or_else(PoisonError::into_inner) += start.elapsed();
        Ok(loaded.insert(result?).function)
    }

    /// Returns the number of resident blocks of `threads` threads per multiprocessor, for [`Self::function`].
    /// The driver is asked once for a number of threads, and again if it changes.
    pub fn resident_blocks(&self, context: &Context, launch: LaunchName, bytes: usize) -> Result<u32> {
        let (function, threads) = (self.function(context, launch, bytes)?, launch.grid().threads);
        let slot = self.slot(launch.kernel);
        let mut loaded = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let known = loaded.and_then(|loaded| loaded.resident).filter(|(of, _)| *of == threads);
        if let Some((_, blocks)) = known {
            return Ok(blocks);
        }
        let blocks = function.resident_blocks(context, threads)?;
        if let Some(loaded) = &mut *loaded {
            loaded.resident = Some((threads, blocks));
        }
        Ok(blocks)
    }

    fn slot(&self, kernel: KernelId) -> Slot {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = loaded.get(&kernel) {
            return slot.clone();
        }
        drop(loaded);
        self.loaded.write().unwrap_or_else(PoisonError::into_inner).entry(kernel).or_default().clone()
    }

    fn load(&self, context: &Context, launch: LaunchName, bytes: usize) -> Result<Loaded> {
        if let Some(loaded) = self.load_machine_code(context, launch, bytes)? {
            return Ok(loaded);
        }
        let entry = self.entry(launch, context.facts.arch)?;
        check_arguments(launch, bytes, &entry.parameters)?;
        let module = compile(context, launch, &entry.text)?;
        let follows = entry.text.contains(follow::WAIT);
        let function = Function { handle: function(context, module, &launch.symbol())?, follows };
        Ok(Loaded { bytes, module: Some(module), function, resident: None })
    }

    /// Loads a kernel from the machine code of its package, if there is any for the device.
    fn load_machine_code(
        &self,
        context: &Context,
        launch: LaunchName,
        bytes: usize,
    ) -> Result<Option<Loaded>> {
        let symbol = launch.symbol();
        for known in self.programs().iter().filter(|known| known.program.name == launch.kernel.program) {
            for code in known.code.iter() {
                let Some(arguments) = code.arguments(&symbol, context.facts.arch) else { continue };
                check_arguments(launch, bytes, &[arguments])?;
                let module = code.module().map_err(|code| context.error(LOAD, code))?;
                let Some(module) = module else { continue };
                // Only kernels that wait are packed.
                let function = Function { handle: function(context, module, &symbol)?, follows: true };
                return Ok(Some(Loaded { bytes, module: None, function, resident: None }));
            }
        }
        Ok(None)
    }

    /// Returns the entry of a kernel from the programs of its package or, for an instance that is not there,
    /// from any other: a package compiles the generic kernels of another one for types of its own.
    fn entry(&self, launch: LaunchName, arch: u32) -> Result<ptx::Entry> {
        let (programs, symbol) = (self.programs(), launch.symbol());
        let (own, others): (Vec<_>, Vec<_>) =
            programs.iter().partition(|known| known.program.name == launch.kernel.program);
        let own = texts(launch, &own, &programs, arch)?;
        let others = others.iter().filter_map(|known| known.best(arch));
        let others = others.filter(|_| launch.kernel.instance.is_some());
        for (_, text) in own.iter().copied().chain(others) {
            if let Some(entry) = text.cut(&symbol).map_err(|cause| damaged(launch, cause))? {
                return Ok(entry);
            }
        }
        Err(unknown(launch, &own))
    }

    fn programs(&self) -> Vec<Known> {
        self.programs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Unloads all kernels. The context must be current, and no launch may follow.
    pub fn unload(&mut self) {
        let loaded = std::mem::take(self.loaded.get_mut().unwrap_or_else(PoisonError::into_inner));
        let own = loaded.into_values().filter_map(|slot| {
            slot.lock().unwrap_or_else(PoisonError::into_inner).take().and_then(|loaded| loaded.module)
        });
        let programs = self.programs();
        let shared = programs.iter().flat_map(|known| known.code.iter()).filter_map(MachineCode::take_module);
        for module in own.chain(shared) {
            // SAFETY: loaded into the current context and not used afterwards.
            let code = unsafe { sys::cuModuleUnload(module) } as Code;
            if code != 0 {
                tracing::debug!(cause = describe(code), "cuModuleUnload");
            }
        }
    }
}

impl Known {
    fn new(program: &'static Program) -> Self {
        // Where no machine code was built its file is empty, beside the PTX of the same architecture.
        let has_text = |arch| program.ptx.iter().any(|(other, file)| *other == arch && !file.is_empty());
        let files = program.ptx.iter().filter(|(arch, file)| !file.is_empty() || !has_text(*arch));
        let (code, texts): (Vec<_>, Vec<_>) = files
            .map(|&(arch, file)| (MachineCode::new(arch, file), (arch, file)))
            .partition(|(code, _)| code.is_some());
        Self {
            program,
            texts: texts.into_iter().map(|(_, (arch, ptx))| (arch, Text::new(ptx, program.ptx))).collect(),
            code: code.into_iter().filter_map(|(code, _)| code).collect(),
        }
    }

    /// Returns the text for the newest architecture that a device of `arch` can run.
    fn best(&self, arch: u32) -> Option<(u32, &Text)> {
        let runnable = self.texts.iter().filter(|(built, _)| *built <= arch);
        runnable.max_by_key(|(built, _)| built).map(|(built, text)| (*built, text))
    }
}

/// Returns the texts of a kernel's own programs for the device.
fn texts<'a>(
    launch: LaunchName,
    own: &[&'a Known],
    all: &[Known],
    arch: u32,
) -> Result<Vec<(u32, &'a Text)>> {
    let program = launch.kernel.program;
    if own.is_empty() {
        let mut names: Vec<_> = all.iter().map(|known| known.program.name).collect();
        names.dedup();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(Error::UnknownProgram { launch, program, known });
    }
    let texts: Vec<_> = own.iter().filter_map(|known| known.best(arch)).collect();
    if texts.is_empty() {
        let built = own.iter().flat_map(|known| known.program.ptx).map(|(arch, _)| format!("sm_{arch}"));
        let built: Vec<_> = built.collect();
        let available = if built.is_empty() { "no architecture".to_owned() } else { built.join(", ") };
        return Err(Error::NoPtx { launch, program, arch, available });
    }
    Ok(texts)
}

/// Returns the error for a symbol missing from the texts; it lists the instances of the same kernel.
fn unknown(launch: LaunchName, texts: &[(u32, &Text)]) -> Error {
    let entries: Vec<_> = texts.iter().flat_map(|(_, text)| text.entries().unwrap_or_default()).collect();
    let names = entries.iter().copied().filter(|entry| entry.split("__").next() == Some(launch.kernel.name));
    let instances: Vec<_> = names.collect();
    let similar = match instances.as_slice() {
        [] => format!(" among its {}", entries.len()),
        instances => format!(" (it has {})", instances.join(", ")),
    };
    let arch = texts.iter().map(|&(arch, _)| arch).max().unwrap_or(0);
    Error::UnknownKernel { launch, program: launch.kernel.program, arch, similar }
}

fn damaged(launch: LaunchName, cause: String) -> Error {
    Error::DamagedPtx { launch, program: launch.kernel.program, cause }
}

/// Checks the parameter sizes. The argument struct is the only parameter; a kernel without arguments may have
/// none.
fn check_arguments(launch: LaunchName, host: usize, parameters: &[usize]) -> Result<()> {
    let same = parameters == [host] || (parameters.is_empty() && host == 0);
    if same { Ok(()) } else { Err(other_size(launch, host, parameters)) }
}

fn other_size(launch: LaunchName, host: usize, device: &[usize]) -> Error {
    Error::Arguments { launch, host, device: device.to_vec() }
}

/// The error log and the information log of the driver's compiler.
struct Logs {
    errors: Vec<u8>,
    information: Vec<u8>,
}

impl Logs {
    fn text(log: &[u8]) -> String {
        let text = CStr::from_bytes_until_nul(log).map(CStr::to_bytes).unwrap_or(log);
        String::from_utf8_lossy(text).trim().to_owned()
    }
}

fn compile(context: &Context, launch: LaunchName, text: &str) -> Result<sys::CUmodule> {
    let start = Instant::now();
    let image = CString::new(text)
        .map_err(|_| refused(launch, "the text holds a zero byte".to_owned(), String::new()))?;
    let mut logs = Logs { errors: vec![0; LOG], information: vec![0; LOG] };
    let (module, code) = load_data(&image, launch.kernel.registers, &mut logs);
    let (errors, information) = (Logs::text(&logs.errors), Logs::text(&logs.information));
    let ms = start.elapsed().as_secs_f64() * 1e3;
    tracing::debug!(kernel = launch.symbol(), ms, code, information, "compiled");
    match code {
        0 => Ok(module),
        code if super::driver::is_fatal(code) => Err(context.error("cuModuleLoadDataEx", code)),
        code => Err(refused(launch, describe(code), format!("{errors}\n{information}"))),
    }
}

fn refused(launch: LaunchName, cause: String, log: String) -> Error {
    Error::Jit { launch, cause, log: log.trim().to_owned() }
}

/// Compiles and loads a PTX image. The driver takes small option values in place of pointers. If it is passed
/// a register limit, even one that does not bind, it uses more registers than without a limit.
fn load_data(image: &CStr, registers: Option<u32>, logs: &mut Logs) -> (sys::CUmodule, Code) {
    use sys::CUjit_option::{
        CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
        CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE, CU_JIT_MAX_REGISTERS,
    };
    let size = std::ptr::without_provenance_mut(LOG);
    let mut options: [(sys::CUjit_option, *mut c_void); 6] = [
        (CU_JIT_ERROR_LOG_BUFFER, logs.errors.as_mut_ptr().cast()),
        (CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, size),
        (CU_JIT_INFO_LOG_BUFFER, logs.information.as_mut_ptr().cast()),
        (CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, size),
        (CU_JIT_LOG_VERBOSE, std::ptr::without_provenance_mut(1)),
        (CU_JIT_MAX_REGISTERS, std::ptr::without_provenance_mut(registers.unwrap_or(0) as usize)),
    ];
    let mut names = options.map(|(name, _)| name);
    let mut values = options.each_mut().map(|(_, value)| *value);
    let mut module = null_mut();
    let count = names.len() as u32 - registers.is_none() as u32;
    // SAFETY: the image is a C string, both arrays have at least `count` elements, and the logs have the
    // sizes passed.
    let code = unsafe {
        let (names, values) = (names.as_mut_ptr(), values.as_mut_ptr());
        sys::cuModuleLoadDataEx(&mut module, image.as_ptr().cast(), count, names, values)
    };
    (module, code as Code)
}

fn function(context: &Context, module: sys::CUmodule, symbol: &str) -> Result<sys::CUfunction> {
    let mut function = null_mut();
    let name = CString::new(symbol).unwrap_or_default();
    // SAFETY: the module was just loaded into the current context; `name` is a C string.
    let code = unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) };
    context.check("cuModuleGetFunction", code as Code)?;
    Ok(function)
}

impl Function {
    /// Returns the number of resident blocks of `threads` threads per multiprocessor. The context must be
    /// current.
    fn resident_blocks(self, context: &Context, threads: u32) -> Result<u32> {
        let mut blocks = 0;
        // SAFETY: the function belongs to the current context.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.handle,
                threads.cast_signed(),
                0,
            )
        };
        context.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code as Code)?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    fn attribute(self, attribute: sys::CUfunction_attribute) -> i32 {
        let mut value = 0;
        // SAFETY: the function belongs to the current context; if the call fails, the value is unchanged.
        unsafe { sys::cuFuncGetAttribute(&mut value, attribute, self.handle) };
        value
    }

    /// Returns a possible reason for a launch that the driver refused.
    pub fn hint(self, grid: Grid) -> String {
        use sys::CUfunction_attribute::{
            CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_NUM_REGS,
        };
        let most = self.attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        let registers = self.attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
        if i64::from(grid.threads) > i64::from(most) {
            format!("; with its {registers} registers a thread it runs in blocks of at most {most}")
        } else {
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(name: &'static str, instance: Option<&'static str>) -> LaunchName {
        LaunchName {
            kernel: KernelId { program: "p", name, instance, registers: None },
            grid: Grid::new(1, 32),
        }
    }

    #[test]
    fn the_struct_is_the_one_parameter() {
        let launch = launch("fill", None);
        assert!(check_arguments(launch, 24, &[24]).is_ok());
        assert!(check_arguments(launch, 0, &[]).is_ok());
        for (host, parameters) in [(24, vec![16]), (24, vec![8, 16]), (24, vec![]), (0, vec![4])] {
            let error = check_arguments(launch, host, &parameters).unwrap_err().to_string();
            assert!(
                error.contains("kernel `fill` on 1 blocks of 32 threads") && error.contains("rebuild it"),
                "{error}"
            );
        }
    }

    #[test]
    fn unknown_kernels_are_named_with_their_instances() {
        let text = Text::new(b".visible .entry get__line() { }\n.visible .entry fill() { }", &[]);
        let error = unknown(launch("get", Some("wide")), &[(90, &text)]).to_string();
        assert!(error.contains("`get__wide`") && error.contains("it has get__line"), "{error}");
        let error = unknown(launch("other", None), &[(90, &text)]).to_string();
        assert!(error.contains("among its 2"), "{error}");
    }

    #[test]
    fn programs_are_looked_up_by_name_and_architecture() {
        static PROGRAM: Program = Program { name: "p", ptx: &[(80, b".visible .entry fill() { }")] };
        let kernels = Kernels::default();
        let error = kernels.entry(launch("fill", None), 90).unwrap_err().to_string();
        assert!(error.contains("no program `p` is registered") && error.contains("add_program"), "{error}");
        kernels.add(&PROGRAM);
        kernels.add(&PROGRAM);
        assert_eq!(kernels.programs().len(), 1);
        assert!(kernels.entry(launch("fill", None), 90).unwrap().text.contains("fill"));
        let error = kernels.entry(launch("fill", None), 75).unwrap_err().to_string();
        assert!(error.contains("sm_80") && error.contains("sm_75"), "{error}");
    }

    #[test]
    fn instances_are_found_in_the_programs_of_other_packages() {
        const OWN: &[u8] = b".visible .entry get__line() { }";
        const MORE: &[u8] = b".visible .entry get__square() { }";
        const OTHER: &[u8] = b".visible .entry get__circle(.param .b64 a) { }\n.visible .entry fill() { }";
        static PROGRAMS: [Program; 3] = [
            Program { name: "p", ptx: &[(80, OWN)] },
            Program { name: "p", ptx: &[(80, MORE)] },
            Program { name: "a", ptx: &[(80, OTHER)] },
        ];
        let kernels = Kernels::default();
        PROGRAMS[..2].iter().for_each(|program| kernels.add(program));
        let circle = launch("get", Some("circle"));
        assert!(kernels.entry(circle, 90).is_err(), "the other program is not registered");
        kernels.add(&PROGRAMS[2]);
        assert_eq!(kernels.entry(circle, 90).unwrap().parameters.len(), 1);
        for instance in ["line", "square"] {
            assert!(kernels.entry(launch("get", Some(instance)), 90).unwrap().parameters.is_empty());
        }
        let error = kernels.entry(launch("fill", None), 90).unwrap_err().to_string();
        assert!(error.contains("`fill`"), "a kernel that is not generic is its package's alone: {error}");
    }

    #[test]
    fn damaged_ptx_is_an_error() {
        static PROGRAM: Program = Program { name: "p", ptx: &[(80, b"\xff")] };
        let kernels = Kernels::default();
        kernels.add(&PROGRAM);
        let error = kernels.entry(launch("fill", None), 90).unwrap_err().to_string();
        assert!(error.contains("`p`") && error.contains("utf-8"), "{error}");
    }
}
