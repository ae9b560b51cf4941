// Package lastwords makes one clear line of the end of a process by a fault, in place of the Go runtime's trace.
//
// # What it owns
//
// File descriptor 2 and the handler of SIGABRT of a process that called Arm.
//
// # What it promises
//
//   - When the runtime ends the process (an uncaught panic, a fatal error, a fault of a mapped page on a goroutine of a
//     library), the trace goes into memory instead of to the standard error, and the process then becomes the program
//     that Arm was given, with the trace as file descriptor 3. That one says in a line what happened, keeps the trace in
//     a file and chooses the exit code. The process id stays: who started the process sees one end, after the last word.
//   - It takes no process, no memory and no room on disk before it is needed, and works for the first process of a
//     container, which takes all others with it when it ends.
//   - kill -9 is what it always was. Faults that a goroutine catches (debug.SetPanicOnFault) are caught as before.
//   - GOTRACEBACK or GODEBUG in the environment mean that somebody wants the runtime's own words: nothing is changed.
//
// # How it works
//
// At traceback level "crash" the runtime, having written its trace, raises SIGABRT on the thread that ends the process,
// while no other goroutine runs any more. No Go code can run then; the handler (handler_*.s) is three system calls: two
// to arrange the descriptors, and execve. A SIGABRT that comes from outside goes to the runtime's own handler, which
// writes the trace and then raises another one. What the process writes to os.Stderr, or to whatever was made from it,
// goes where it went before.
//
// # Caveats
//
// Linux on amd64 and arm64 only, and not with the race detector, whose reports go to file descriptor 2; elsewhere Arm
// does nothing. It is for the whole process. The package must not import anything of Pintle.
package lastwords
