// Where the compiler begins to look in a package.
export * from "./assembly/index";
