//! The host runtime: devices, streams, events, buffers and typed launches, on CUDA and on the emulator
