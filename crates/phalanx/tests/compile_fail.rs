//! Types that cannot be keys, values or summands do not compile, and the errors say which types can.

#[test]
fn unsupported_types_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
