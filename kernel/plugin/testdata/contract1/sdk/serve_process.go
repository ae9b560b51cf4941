//go:build !wasip1

package sdk

import (
	"fmt"
	"os"

	"pintle.dev/pintle/sdk/transport"
)

// Serve serves everything registered in this binary as a process plugin and
// returns when the kernel has asked it to stop. Started by hand it says what
// it is and ends with status 1.
func Serve() {
	if err := transport.Serve(Service(NewGuest())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
