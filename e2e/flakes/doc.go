// Flakes runs each test of a package many times in a row while the processors are
// busy, and says which do not always pass. A test that fails once in twenty
// runs often fails a run of all tests.
//
// It builds the test program once and goes round: in each round, every test that
// has not passed often enough in a row runs once, several at a time. All e2e tests
// twenty times take hours, so each result is written down with its commit (runs.jsonl
// in the output folder), and the next start goes on from there. A failure begins the row anew.
// The log of a round in which a test failed is kept.
//
// It is a program for the project's own tests and imports nothing of it. Names of
// tests come from the test program, what it prints goes through ends and begun into
// a record, and the report is made of the record.
package main
