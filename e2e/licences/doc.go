// Licences checks the licences of all modules that are linked into what Pintle ships.
//
//	licences DIR[:PATTERN] ...
//
// Each DIR is the folder of a Go module, PATTERN names its packages (./... without one). For each
// package that these need, tests aside, the nearest licence file in the module cache is read.
// Its text must be one of the allowed licences. It prints how many modules have which licence, and
// exits with 1 where one has none, or another.
package main
