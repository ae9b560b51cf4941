//go:build !wasip1

package sdk

import (
	"fmt"
	"os"

	"pintle.dev/pintle/sdk/transport"
)

// added makes the services of kinds that other packages of the SDK serve;
// written from init functions only.
var added []func() transport.Service

// AddService adds a service to what Serve serves. Packages of the SDK call it;
// authors use theirs.
func AddService(service func() transport.Service) { added = append(added, service) }

// Serve serves everything registered in this binary as a process plugin and
// returns when the kernel has asked it to stop. Started by hand it says what
// it is and ends with status 1.
func Serve() {
	services := make([]transport.Service, 0, len(added)+1)
	for i := 0; i < len(added); i++ { // one may add another
		services = append(services, added[i]())
	}
	if guest := NewGuest(); len(guest.Plugins()) > 0 || len(services) == 0 {
		services = append(services, Service(guest))
	}
	if err := transport.Serve(services...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
