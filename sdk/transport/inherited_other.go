//go:build !unix && !wasip1

package transport

import "os"

// inherited is nil: only unix hands sockets on to processes so.
func inherited() *os.File { return nil }
