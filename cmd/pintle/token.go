package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/bootstraptokens"
	"pintle.dev/pintle/kernel/join"
)

const (
	// tokenPatience bounds what a command asks of a running kernel.
	tokenPatience = 30 * time.Second
	// signPatience is how long the controllers may take until a new token works.
	signPatience = 20 * time.Second
)

func newTokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Bootstrap tokens, by which machines join a cluster",
		Long: `Make, list and delete bootstrap tokens: Secrets of type bootstrap.kubernetes.io/token in
kube-system, as kubeadm's. A machine joins by one: pintle node --join-file.

` + cli.ConnectHelp,
	}
	cmd.AddCommand(newTokenCreateCommand(), newTokenListCommand(), newTokenDeleteCommand())
	return cmd
}

const tokenCreateLong = `Make a bootstrap token and print it. Without TOKEN it is a random one.

The ConfigMap kube-public/cluster-info and the roles that joining needs are written too,
by kubeadm's names; roles that are there stay as they are. The kernel has to let tokens in
(auth.bootstrapTokens) and to run the controllers bootstrapsigner, csrapproving and nodeipam;
configs/standalone.yaml does. tokencleaner deletes tokens that expire.

With --print-join-command, what is printed is the command for the machine that joins. It
has the token, and the hash of the key of the cluster's authority. The shell hands both to
standard input: no process has the token among its arguments, which other users see.
Delete the token when all machines have joined: pintle token delete.`

type tokenCreateFlags struct {
	at           cli.ConnectFlags
	ttl          time.Duration
	usages       []string
	groups       []string
	description  string
	printCommand bool
	server       string
}

func newTokenCreateCommand() *cobra.Command {
	var f tokenCreateFlags
	cmd := &cobra.Command{
		Use:     "create [TOKEN]",
		Short:   "Make a bootstrap token",
		Long:    tokenCreateLong,
		Example: "  pintle token create --print-join-command\n  pintle token create --ttl 1h --description 'for the new rack'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args)
		},
	}
	f.at.Register(cmd)
	cmd.Flags().DurationVar(&f.ttl, "ttl", 24*time.Hour, "how long the token is good; 0: it does not end")
	cmd.Flags().StringSliceVar(&f.usages, "usages", []string{"signing", "authentication"}, "what the token is for")
	cmd.Flags().StringSliceVar(&f.groups, "groups", []string{bootstraptokens.NodeGroup}, "groups of the token besides system:bootstrappers")
	cmd.Flags().StringVar(&f.description, "description", "", "what the token is for, for people")
	cmd.Flags().BoolVar(&f.printCommand, "print-join-command", false, "print the command by which a machine joins")
	cmd.Flags().StringVar(&f.server, "server", "", "HOST:PORT at which the other machine reaches the API server; empty: as the kernel advertises it")
	cli.CompleteFlag(cmd, "usages", cli.OneOf("signing", "authentication"))
	return cmd
}

func (f *tokenCreateFlags) run(cmd *cobra.Command, args []string) error {
	token, err := f.token(cmd, args)
	if err != nil {
		return err
	}
	cfg, client, err := tokenClient(&f.at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), tokenPatience)
	defer cancel()
	server := "https://" + f.server
	if f.server == "" {
		if server, err = bootstraptokens.Server(ctx, client); err != nil {
			return err
		}
	}
	command, err := joinCommand(cfg, server, token)
	if err != nil {
		return err
	}
	if err := bootstraptokens.Prepare(ctx, client, server, cfg.CAData); err != nil {
		return err
	}
	if err := bootstraptokens.Create(ctx, client, token); err != nil {
		return err
	}
	waiting, stop := context.WithTimeout(ctx, signPatience)
	defer stop()
	// It is printed all the same: what is missing may come.
	late := bootstraptokens.Await(waiting, client, token)
	if f.printCommand {
		fmt.Fprintln(cmd.OutOrStdout(), command)
	} else {
		fmt.Fprintln(cmd.OutOrStdout(), token)
	}
	return late
}

// token is the one that the flags describe.
func (f *tokenCreateFlags) token(cmd *cobra.Command, args []string) (t bootstraptokens.Token, err error) {
	if len(args) > 0 {
		t, err = bootstraptokens.Parse(args[0])
	} else {
		t, err = bootstraptokens.Generate()
	}
	if err != nil {
		return t, cli.UsageFault(err)
	}
	t.Usages, t.Groups, t.Description = f.usages, f.groups, f.description
	if !cmd.Flags().Changed("groups") && !strings.Contains(strings.Join(f.usages, ","), "authentication") {
		t.Groups = nil // the default is for those that authenticate
	}
	switch {
	case f.ttl < 0:
		return t, cli.UsageFault(fmt.Errorf("--ttl %s: want 0 or more", f.ttl))
	case f.ttl > 0:
		t.Expires = time.Now().Add(f.ttl)
	}
	return t, nil
}

// joinCommand is what joins a machine by the token.
func joinCommand(cfg *rest.Config, server string, token bootstraptokens.Token) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "", cli.UsageFault(fmt.Errorf("--server: %q is no HOST:PORT", strings.TrimPrefix(server, "https://")))
	}
	certs, err := certutil.ParseCertsPEM(cfg.CAData)
	if err != nil {
		return "", fmt.Errorf("kubeconfig: the cluster's authority: %w", err)
	}
	a, err := join.ParseArgument(join.Argument{ID: token.ID, Secret: token.Secret, Server: u.Host, Hash: join.Hash(certs[0])}.String())
	if err != nil {
		return "", cli.UsageFault(fmt.Errorf("--server: %w", err))
	}
	exe := os.Args[0]
	if !strings.Contains(exe, "/") {
		exe = "pintle"
	}
	// echo is the shell's own: the token is no argument of a process.
	return fmt.Sprintf("echo '%s' | %s node --config configs/node.yaml --join-file -", a, exe), nil
}

// tokenClient is the administrator's; its configuration has the authority inline.
func tokenClient(at *cli.ConnectFlags) (*rest.Config, kubernetes.Interface, error) {
	cfg, err := at.Config()
	if err != nil {
		return nil, nil, err
	}
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, nil, cli.UsageFault(fmt.Errorf("kubeconfig: %w", err))
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return cfg, client, nil
}

// listedToken is what the command prints as JSON or YAML.
type listedToken struct {
	Token       string     `json:"token"`
	Description string     `json:"description,omitempty"`
	Expires     *time.Time `json:"expires,omitempty"`
	Usages      []string   `json:"usages,omitempty"`
	Groups      []string   `json:"groups,omitempty"`
}

func newTokenListCommand() *cobra.Command {
	var at cli.ConnectFlags
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List bootstrap tokens, with their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			_, client, err := tokenClient(&at)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), tokenPatience)
			defer cancel()
			tokens, faults := bootstraptokens.List(ctx, client)
			listed := make([]listedToken, 0, len(tokens))
			for _, t := range tokens {
				l := listedToken{Token: t.String(), Description: t.Description, Usages: t.Usages, Groups: t.Groups}
				if !t.Expires.IsZero() {
					l.Expires = &t.Expires
				}
				listed = append(listed, l)
			}
			return errors.Join(faults, output.Print(cmd.OutOrStdout(), listed, func(w io.Writer) { printTokens(w, tokens, time.Now()) }))
		},
	}
	at.Register(cmd)
	output.Register(cmd, "table")
	return cmd
}

// printTokens is kubeadm's table.
func printTokens(w io.Writer, tokens []bootstraptokens.Token, now time.Time) {
	none := func(list []string) string {
		if len(list) == 0 {
			return "<none>"
		}
		return strings.Join(list, ",")
	}
	cli.Row(w, "TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS")
	for _, t := range tokens {
		ttl, expires, description := "<forever>", "<never>", "<none>"
		if !t.Expires.IsZero() {
			expires = t.Expires.Format(time.RFC3339)
			if ttl = "<invalid>"; t.Expires.After(now) {
				ttl = duration.ShortHumanDuration(t.Expires.Sub(now))
			}
		}
		if t.Description != "" {
			description = t.Description
		}
		cli.Row(w, t, ttl, expires, none(t.Usages), description, none(t.Groups))
	}
}

func newTokenDeleteCommand() *cobra.Command {
	var at cli.ConnectFlags
	cmd := &cobra.Command{
		Use:   "delete TOKEN...",
		Short: "Delete bootstrap tokens, by their ids or as a whole",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, client, err := tokenClient(&at)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), tokenPatience)
			defer cancel()
			for _, text := range args {
				id, err := bootstraptokens.Delete(ctx, client, text)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "bootstrap token %q deleted\n", id)
			}
			return nil
		},
	}
	at.Register(cmd)
	return cmd
}
