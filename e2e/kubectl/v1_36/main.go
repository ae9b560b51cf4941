// Kubectl is an unmodified kubectl of Kubernetes 1.36, for TestKubectlVersions.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
