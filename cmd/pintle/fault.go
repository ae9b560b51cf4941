package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/lastwords"
	"pintle.dev/pintle/kernel/store"
)

// faultCommand is what a kernel that ends by a fault becomes; nobody calls it
// by hand.
const faultCommand = "fault"

// catchFaults has a fault, also on a goroutine of a library, end the kernel by
// tellFault. disarm is nil where that is not possible, and the runtime's words
// are what one gets.
func catchFaults(cfg *config.Config) (disarm func()) {
	file, err := filepath.Abs(kernel.FaultFile(cfg))
	if err != nil {
		return nil
	}
	// The file may have been replaced by an upgrade since the start.
	exe := "/proc/self/exe"
	if _, err := os.Stat(exe); err != nil {
		if exe, err = os.Executable(); err != nil {
			return nil
		}
	}
	disarm, err = lastwords.Arm([]string{exe, faultCommand, file})
	if err != nil {
		return nil
	}
	return disarm
}

// tellFault says why the kernel ended, keeps the trace in file and returns the
// exit code: 1, as after any failure while running. A trace that somebody
// asked for by SIGQUIT is shown, with the exit code that Go gives it.
func tellFault(w io.Writer, file string) int {
	trace, err := lastwords.Read()
	if err != nil {
		fmt.Fprintf(w, "the kernel stopped by a fault: %v\n", err)
		return cli.ExitFault
	}
	if lastwords.Asked(trace) {
		_, _ = io.WriteString(w, trace)
		return exitQuit
	}
	where := "the trace is in " + file
	if err := lastwords.Keep(file, trace); err != nil {
		where = "the trace is lost: " + err.Error()
	}
	fmt.Fprintf(w, "the kernel stopped by a fault: %v (%s)\n", store.Fault(filepath.Dir(file), trace), where)
	return cli.ExitFault
}

// exitQuit is the Go runtime's exit code after SIGQUIT.
const exitQuit = 2
