// Command reference writes configs/docs/reference.md: every key of the configuration,
// from the schema in package config. It imports nothing else of the kernel.
package main

import (
	"bytes"
	"fmt"
	"os"

	"pintle.dev/pintle/kernel/config"
)

//go:generate go run . ../../../configs/docs/reference.md

const head = `# Reference

Generated from the schema: ` + "`go generate ./kernel/config/reference`" + `. ` + "`pintle config show`" + ` prints the same
keys with the values in force and their environment variables. A change that is live takes effect
when the file is written, a restart at the next start.
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference FILE")
		os.Exit(2)
	}
	text, err := page()
	if err == nil {
		err = os.WriteFile(os.Args[1], text, 0o644) //nolint:gosec // a document
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func page() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(head)
	err := config.Reference(&b)
	return b.Bytes(), err
}
