// Kubectl is an unmodified kubectl of Kubernetes 1.35, for TestKubectlVersions.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
