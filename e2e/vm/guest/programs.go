package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"pintle.dev/pintle/e2e/vm/orders"
)

// send gives the second process its orders.
func send(to io.WriteCloser, o orders.Orders) error {
	return errors.Join(json.NewEncoder(to).Encode(o.Programs), to.Close())
}

// work runs the programs in order, and returns the first status that is none of success.
func work() int {
	var programs []orders.Program
	if err := json.NewDecoder(os.Stdin).Decode(&programs); err != nil {
		fmt.Println("vm: read orders:", err)
		return 1
	}
	status := 0
	for _, p := range programs {
		fmt.Println("vm:", p.Folder)
		cmd := exec.Command(p.Args[0], p.Args[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = p.Folder, os.Stdout, os.Stderr
		err := cmd.Run()
		if err == nil {
			continue
		}
		fmt.Println("vm:", p.Folder+":", err)
		this := 1
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() > 0 {
			this = exit.ExitCode()
		}
		if status == 0 {
			status = this
		}
	}
	return status
}
