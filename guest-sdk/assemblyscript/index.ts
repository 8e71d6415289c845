// The entry point of the package for the compiler.
export * from "./assembly/index";
