package bootstraptokens

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/util/secrets"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

type cleaner struct {
	client kubernetes.Interface
	tokens cache.SharedIndexInformer
	loop   *queue.Loop[string]
	log    *slog.Logger
}

// NewCleaner builds tokencleaner.
func NewCleaner(c *controller.Context) (controller.Runner, error) {
	out := &cleaner{client: c.Client, log: c.Logger, tokens: tokensOf(c)}
	out.loop = queue.New(c.Logger, out.sync, queue.Options[string]{Name: "token_cleaner", Workers: 1})
	return out, nil
}

// Run deletes tokens that expire until ctx ends.
func (c *cleaner) Run(ctx context.Context) error {
	return follow(ctx, c.loop, queue.Watch{Informer: c.tokens, Handler: queue.On(func(_, current *corev1.Secret) {
		if current != nil {
			c.loop.Add(queue.Key(current))
		}
	})})
}

// sync deletes a token that has expired, and comes back when it does.
func (c *cleaner) sync(ctx context.Context, key string) error {
	obj, ok, err := c.tokens.GetStore().GetByKey(key)
	if err != nil || !ok {
		return err
	}
	s := obj.(*corev1.Secret)
	if s.Type != bootstrapapi.SecretTypeBootstrapToken {
		return nil
	}
	left, expired := secrets.GetExpiration(s, time.Now())
	if !expired {
		if left > 0 {
			return &queue.After{Delay: left, Reason: "the token has not expired"}
		}
		return nil // it has no end
	}
	// What was given more time since is left: its event is on the way.
	err = c.client.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion},
	})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete bootstrap token %s: %w", key, err)
	}
	c.log.Info("an expired bootstrap token is deleted", "secret", key)
	return nil
}
