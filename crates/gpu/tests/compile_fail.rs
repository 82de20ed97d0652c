//! Launches with wrong arguments do not compile.

#[test]
fn wrong_arguments_do_not_compile() {
    let tests = trybuild::TestCases::new();
    tests.pass("tests/compile_fail/right.rs");
    tests.compile_fail("tests/compile_fail/wrong_*.rs");
}
