package cluster

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"

	"github.com/vishvananda/netns"
)

// starter starts processes on one thread, which lives as long as the tests do.
//
// Pdeathsig is sent when the thread that started a process ends, not when its program
// does. A thread of Go ends with a goroutine that locked it, as goroutines do that enter a
// namespace or take another user. Whatever thread they meet may have started a cluster.
type starter struct {
	orders chan func()
}

// starts is the starter of this program. Nothing stops it.
var starts = sync.OnceValue(func() *starter {
	s := &starter{orders: make(chan func())}
	go s.run()
	return s
})

func (s *starter) run() {
	runtime.LockOSThread()
	for order := range s.orders {
		order()
	}
}

func (s *starter) start(n *Network, cmd *exec.Cmd) error {
	done := make(chan error)
	s.orders <- func() { done <- startIn(n, cmd) }
	return <-done
}

// startIn leaves the thread in its own network.
func startIn(n *Network, cmd *exec.Cmd) error {
	if n == nil {
		return cmd.Start()
	}
	own, err := netns.Get()
	if err != nil {
		return fmt.Errorf("enter network: %w", err)
	}
	defer own.Close()
	if err := netns.Set(n.handle); err != nil {
		return fmt.Errorf("enter network: %w", err)
	}
	err = cmd.Start()
	if back := netns.Set(own); back != nil {
		// All that is started from now on would be in the wrong network.
		panic(fmt.Sprintf("the thread that starts processes cannot leave a network: %v", back))
	}
	return err
}
