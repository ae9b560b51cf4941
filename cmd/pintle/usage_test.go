package main

import (
	"errors"
	"io"
	"testing"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
)

// Whatever is wrong with a line is one line of words and exit code 2.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // empty: nothing is wrong
	}{
		{[]string{"nosuch"}, `unknown command "nosuch" for "pintle"; see pintle --help`},
		{[]string{"plugin", "nosuch"}, `unknown command "nosuch" for "pintle plugin"; see pintle plugin --help`},
		{[]string{"store", "nosuch", "--data", "/d"}, `unknown command "nosuch" for "pintle store"; see pintle store --help`},
		{[]string{"plugin", "seal"}, "pintle plugin seal: requires at least 1 arg(s), only received 0; see pintle plugin seal --help"},
		{[]string{"plugin", "describe"}, "pintle plugin describe: accepts 1 arg(s), received 0; see pintle plugin describe --help"},
		{[]string{"store", "get"}, "pintle store get: accepts 1 arg(s), received 0; see pintle store get --help"},
		{[]string{"config", "import-scheduler"}, "pintle config import-scheduler: accepts 1 arg(s), received 0; see pintle config import-scheduler --help"},
		{[]string{"config", "import-controllers"}, "pintle config import-controllers: accepts 1 arg(s), received 0; see pintle config import-controllers --help"},
		{[]string{"pki", "rotate"}, "pintle pki rotate: accepts 1 arg(s), received 0; see pintle pki rotate --help"},
		{[]string{"pki", "rotate", "ca"}, `pintle pki rotate: invalid argument "ca" for "pintle pki rotate"; see pintle pki rotate --help`},
		{[]string{"version", "--nosuch"}, "pintle version: unknown flag: --nosuch; see pintle version --help"},
		{[]string{"plugin"}, ""}, {[]string{"plugin", "--help"}, ""}, {[]string{"help", "plugin"}, ""}, {[]string{"completion", "bash"}, ""}, {[]string{"version"}, ""}, {nil, ""},
	} {
		root := newRootCommand()
		root.SetOut(io.Discard)
		root.SetArgs(c.args)
		if c.args == nil {
			root.SetArgs([]string{})
		}
		err := known(root, c.args)
		if err == nil {
			err = root.Execute()
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.args, err)
		case c.want != "" && (err == nil || err.Error() != c.want || !errors.As(err, new(cli.UsageError))):
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
}
