package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/cmd/pintle/internal/plugincmd"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/config/kubescheduler"
)

func newConfigImportCommand() *cobra.Command {
	var output, into, dataDir string
	var partial bool
	cmd := &cobra.Command{
		Use:   "import-scheduler FILE",
		Short: "Translate a KubeSchedulerConfiguration, or a Policy file, into a configuration of this kernel",
		Long: "Translate what kube-scheduler is configured with into a configuration of this kernel: a\n" +
			"KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) or a Policy file (v1), as YAML or JSON. The\n" +
			"result is checked as pintle config check does. What has no counterpart and needs none is said on standard\n" +
			"error. What cannot be translated is said there with file, line and what to do; nothing is written then,\n" +
			"unless --partial leaves it out.\n\n" +
			"With --into the scheduler's part of an existing configuration is replaced, and the rest of it stays.\n\n" +
			"Plugins that Kubernetes does not have are taken over where a bundle has them that is installed in the data\n" +
			"directory or lies in the plugin directories of --into, or beside this program: at each point the plugin of\n" +
			"the same name, or with the point behind it (CoschedulingPermit).",
		Example: "  pintle config import-scheduler scheduler.yaml -o pintle.yaml\n" +
			"  pintle config import-scheduler policy.json --into configs/standalone.yaml -o pintle.yaml",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readBounded(args[0])
			if err != nil {
				return err
			}
			installed, err := plugincmd.InstalledPlugins(into, dataDir)
			if err != nil {
				return err
			}
			t, err := kubescheduler.Translate(args[0], data, installed...)
			var notes config.Faults
			if t != nil {
				notes = t.Notes
			}
			if err := tellTranslation(cmd.ErrOrStderr(), notes, err, partial && t != nil); err != nil {
				return err
			}
			return writeTranslation(cmd.OutOrStdout(), t, into, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write; empty: standard output")
	cmd.Flags().StringVar(&into, "into", "", "configuration whose scheduler part is replaced; it is read only")
	cmd.Flags().StringVar(&dataDir, "data", "", "data directory whose installed plugins are at hand; default: that of --into, $PINTLE_DATADIR, or .data")
	cmd.Flags().BoolVar(&partial, "partial", false, "leave out what cannot be translated")
	return cmd
}

// translation is a file of another program in this kernel's keys.
type translation interface {
	YAML() ([]byte, error)
	Into(name string, existing []byte) ([]byte, error)
}

// importCommand is a command that translates a file of another program.
//
// translate returns nil as translation where nothing of the file can be used.
func importCommand(cmd *cobra.Command, intoUsage string, translate func(name string, data []byte) (translation, config.Faults, error)) *cobra.Command {
	var output, into string
	var partial bool
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := readBounded(args[0])
		if err != nil {
			return err
		}
		t, notes, err := translate(args[0], data)
		if err := tellTranslation(cmd.ErrOrStderr(), notes, err, partial && t != nil); err != nil {
			return err
		}
		return writeTranslation(cmd.OutOrStdout(), t, into, output)
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write; empty: standard output")
	cmd.Flags().StringVar(&into, "into", "", intoUsage)
	cmd.Flags().BoolVar(&partial, "partial", false, "leave out what is not supported")
	return cmd
}

// tellTranslation says what was noted about a translation and, if the rest may be written, what is left out of it.
func tellTranslation(w io.Writer, notes config.Faults, err error, partial bool) error {
	for _, note := range notes {
		fmt.Fprintf(w, "%v\n", note)
	}
	var faults config.Faults
	if errors.As(err, &faults) && partial {
		for _, fault := range faults {
			fmt.Fprintf(w, "left out: %v\n", fault)
		}
	} else if err != nil {
		return cli.UsageFault(err)
	}
	return nil
}

// writeTranslation writes a translation, alone or within the configuration into, to the file output.
func writeTranslation(w io.Writer, t translation, into, output string) error {
	text, err := t.YAML()
	if into != "" {
		var existing []byte
		if existing, err = readBounded(into); err == nil {
			text, err = t.Into(into, existing)
		}
	}
	if err != nil {
		return err
	}
	return writeChecked(w, output, text)
}

// readBounded reads a file of at most a configuration's size.
func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, cli.UsageFault(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, config.MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// writeChecked checks a configuration and writes it, whole or not at all.
func writeChecked(out io.Writer, name string, text []byte) (err error) {
	folder := os.TempDir()
	if name != "" {
		folder = filepath.Dir(name)
	}
	f, err := os.CreateTemp(folder, ".pintle-*.yaml")
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if _, err := config.Load(config.Source{File: f.Name()}); err != nil {
		return fmt.Errorf("the translation is not a sound configuration: %w", err)
	}
	if name == "" {
		_, err = out.Write(text)
		return err
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return os.Rename(f.Name(), name)
}
