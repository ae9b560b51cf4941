package authentication

import (
	"errors"
	"fmt"
	"log/slog"

	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
)

// Check reads the files as New does, with all faults that can be seen without the
// cluster's own authority. It starts nothing and asks nobody.
func Check(f Files) error {
	quiet := slog.New(slog.DiscardHandler)
	var errs []error
	for _, file := range f.ClientCAs {
		if _, err := authorityFile("client-ca", file); err != nil {
			errs = append(errs, fmt.Errorf("auth.clientCAFiles: %w", err))
		}
	}
	if _, err := (&Ways{o: Options{Files: f}}).frontProxy(); err != nil {
		errs = append(errs, err)
	}
	if f.Tokens != "" {
		if _, err := readTokens(f.Tokens, quiet); err != nil {
			errs = append(errs, fmt.Errorf("auth.tokenFile: %w", err))
		}
	}
	if f.Config != "" {
		i := &issuers{file: f.Config, log: quiet, compiler: authenticationcel.NewDefaultCompiler()}
		if _, _, err := i.load(); err != nil {
			errs = append(errs, i.fault(err))
		}
	}
	if f.Webhook.File != "" {
		if _, err := newWebhook(f.Webhook, nil); err != nil {
			errs = append(errs, fmt.Errorf("auth.tokenWebhook.configFile %s: %w", f.Webhook.File, err))
		}
	}
	return errors.Join(errs...)
}
