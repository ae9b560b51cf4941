// Package orders is what the machine is asked to do. It is written into the initial file system,
// and read there by the machine's first process.
package orders

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// File is where the orders are in the initial file system.
const File = "/orders.json"

// Output is the serial port that takes the output of programs and the last line.
const Output = "/dev/ttyS1"

// Alive is the first line of the output.
const Alive = "vm: the kernel runs"

// Orders are programs that run one after another.
type Orders struct {
	Word     string   // stands before the status in the last line
	Load     []string // modules to load before the root is mounted, in order
	Modules  string   // the folder of this machine that is mounted at /lib/modules
	Keep     string   // a folder of this machine that has to stay visible
	Programs []Program
	Limit    time.Duration // the machine ends itself after this time
}

// Program is one of them.
type Program struct {
	Folder string
	Args   []string // the program, then its arguments
}

// Write writes orders to a file.
func (o Orders) Write(file string) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("write orders: %w", err)
	}
	return os.WriteFile(file, data, 0o600)
}

// Read reads them in the machine.
func Read() (Orders, error) {
	var o Orders
	data, err := os.ReadFile(File)
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		return o, fmt.Errorf("read orders: %w", err)
	}
	return o, nil
}

// Last is the last line of the output.
func (o Orders) Last(status int) string { return fmt.Sprintf("%s %d", o.Word, status) }
