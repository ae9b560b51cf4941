package authentication

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	tokencache "k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"

	"pintle.dev/pintle/kernel/api/answerlimit"
	"pintle.dev/pintle/kernel/secretfile"
)

// maxToken bounds what is looked at, and passed on to a webhook.
const maxToken = 64 << 10

// notTooLarge refuses tokens that are larger than any is.
type notTooLarge struct{ authenticator.Token }

// AuthenticateToken implements authenticator.Token.
func (n notTooLarge) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if len(token) > maxToken {
		return nil, false, fmt.Errorf("the token has %d bytes; at most %d are taken", len(token), maxToken)
	}
	return n.Token.AuthenticateToken(ctx, token)
}

// readTokens reads a file of tokens. Upstream takes the last of two lines with the
// same token; here that is a mistake, and a token without a user too.
func readTokens(file string, log *slog.Logger) (authenticator.Token, error) {
	if err := secretfile.ClosedToWriters(file); err != nil {
		return nil, err
	}
	warnOfReaders(log, file, "the file of tokens")
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	reader := csv.NewReader(in)
	reader.FieldsPerRecord = -1
	first := map[string]int{}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		line, _ := reader.FieldPos(0)
		switch {
		case len(record) < 3:
			return nil, fmt.Errorf("%s:%d: has %d fields; want token, user, uid, and groups in quotes", file, line, len(record))
		case len(record) > 4:
			return nil, fmt.Errorf("%s:%d: has %d fields; several groups are one field, in quotes", file, line, len(record))
		case record[0] == "" || record[1] == "":
			return nil, fmt.Errorf("%s:%d: has no token or no user", file, line)
		case len(record[0]) > maxToken:
			return nil, fmt.Errorf("%s:%d: the token is longer than %d bytes", file, line, maxToken)
		case first[record[0]] != 0:
			return nil, fmt.Errorf("%s:%d: has the token of line %d; keep one", file, line, first[record[0]])
		}
		first[record[0]] = line
	}
	return tokenfile.NewCSV(file)
}

// warnOfReaders says that others may read a secret.
func warnOfReaders(log *slog.Logger, file, what string) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn(what+", which holds secrets, can be read by others; set its mode to 0600", "file", file, "mode", info.Mode().Perm().String())
	}
}

// Webhook is a server that knows whose tokens are.
type Webhook struct {
	// File is a kubeconfig; empty: there is none.
	File string
	// Version is that of the TokenReviews, v1 or v1beta1.
	Version string
	// TTL is how long its answers are remembered.
	TTL time.Duration
}

const (
	// maxAnswer bounds the TokenReview that a webhook answers with.
	maxAnswer = 1 << 20
	// retryDelay is before the first further try, as kube-apiserver's.
	retryDelay = 500 * time.Millisecond
)

// newWebhook makes the authenticator that asks one. It asks nothing yet.
func newWebhook(w Webhook, audiences []string) (authenticator.Token, error) {
	client, err := webhookutil.LoadKubeconfig(w.File, nil)
	if err != nil {
		return nil, err
	}
	client.Wrap(answerlimit.NewTurns().Wrap("the authentication webhook", maxAnswer))
	made, err := webhook.New(client, w.Version, audiences, webhookutil.DefaultRetryBackoffWithInitialDelay(retryDelay))
	if err != nil {
		return nil, err
	}
	bounded := authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, maxAsking)
		defer cancel()
		res, ok, err := made.AuthenticateToken(ctx, token)
		if ok && err == nil && res.User.GetName() == "" {
			return nil, false, errors.New("the authentication webhook accepts a token and names no user")
		}
		return res, ok, err
	})
	return tokencache.New(bounded, false, w.TTL, w.TTL), nil
}
