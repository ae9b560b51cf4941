// Kubectl is an unmodified kubectl of the pinned module, for the end-to-end
// tests: a client that knows nothing of Pintle.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
