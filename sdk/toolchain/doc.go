// Package toolchain builds a bundle's source with the compiler of its language:
// Go, C, AssemblyScript, Rust, or JavaScript for Node.
//
// Detect finds the language by the files of a folder, Build runs the compiler
// and leaves NAME.wasm, NAME or both there. What is missing is named with the
// Debian packages that bring it (MissingError). Nothing is downloaded but what a
// package.json or Cargo.toml of the source asks npm or cargo for.
//
// It imports the standard library only.
package toolchain
