package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pintle.dev/pintle/kernel/plugin/operate"
)

// ConnectFlags say which running kernel is meant.
type ConnectFlags struct{ kubeconfig, Data string }

const ConnectHelp = `Which kernel: the one that --kubeconfig FILE leads to, or whose data directory is
--data DIR; without both, $KUBECONFIG, else the data directory $PINTLE_DATADIR,
else .data.`

// Register adds the flags to cmd.
func (f *ConnectFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the running kernel")
	cmd.Flags().StringVar(&f.Data, "data", "", "data directory of the running kernel")
	cmd.MarkFlagsMutuallyExclusive("kubeconfig", "data")
	CompleteFlag(cmd, "data", Folders)
}

// Config finds the way to the kernel.
func (f *ConnectFlags) Config() (*rest.Config, error) {
	kubeconfig := f.kubeconfig
	if kubeconfig == "" && f.Data == "" {
		kubeconfig = os.Getenv("KUBECONFIG")
	}
	if kubeconfig == "" {
		data, err := DataDirectory(f.Data)
		if err != nil {
			return nil, err
		}
		kubeconfig = filepath.Join(data, "admin.kubeconfig")
		if _, err := os.Stat(kubeconfig); err != nil {
			return nil, UsageFault(fmt.Errorf("no kernel's %s: name its data directory with --data, or the way to it with --kubeconfig", kubeconfig))
		}
	}
	return KubeconfigOf(kubeconfig, "pintle")
}

// KubeconfigOf reads a kubeconfig, or several with colons between.
func KubeconfigOf(kubeconfig, agent string) (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(kubeconfig)}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, UsageFault(fmt.Errorf("kubeconfig %s: %w", kubeconfig, err))
	}
	cfg.UserAgent = agent
	return cfg, nil
}

// Plugins is a client for the kernel's Plugin objects.
func (f *ConnectFlags) Plugins() (*operate.Client, error) {
	cfg, err := f.Config()
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = "pintle-plugin"
	return operate.New(cfg)
}
