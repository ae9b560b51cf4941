package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connectFlags say which running kernel is meant.
type connectFlags struct{ kubeconfig, data string }

const connectHelp = `Which kernel: the one that --kubeconfig FILE leads to, or whose data directory is
--data DIR; without both, $KUBECONFIG, else the data directory $PINTLE_DATADIR,
else .data.`

func (f *connectFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the running kernel")
	cmd.Flags().StringVar(&f.data, "data", "", "data directory of the running kernel")
	cmd.MarkFlagsMutuallyExclusive("kubeconfig", "data")
	completeFlag(cmd, "data", folders)
}

// config finds the way to the kernel.
func (f *connectFlags) config() (*rest.Config, error) {
	kubeconfig := f.kubeconfig
	if kubeconfig == "" && f.data == "" {
		kubeconfig = os.Getenv("KUBECONFIG")
	}
	if kubeconfig == "" {
		data, err := dataDirectory(f.data)
		if err != nil {
			return nil, err
		}
		kubeconfig = filepath.Join(data, "admin.kubeconfig")
		if _, err := os.Stat(kubeconfig); err != nil {
			return nil, usageError{fmt.Errorf("no kernel's %s: name its data directory with --data, or the way to it with --kubeconfig", kubeconfig)}
		}
	}
	return kubeconfigOf(kubeconfig, "pintle")
}

// kubeconfigOf reads a kubeconfig, or several with colons between.
func kubeconfigOf(kubeconfig, agent string) (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(kubeconfig)}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, usageError{fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)}
	}
	cfg.UserAgent = agent
	return cfg, nil
}
