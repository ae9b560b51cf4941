package tokensecrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Issuer signs the tokens.
type Issuer interface {
	IssueLegacy(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error)
}

// Config of a Controller; all of it is required.
type Config struct {
	Client corev1client.CoreV1Interface
	// Secrets lists and watches the Secrets of the type, and no others.
	Secrets  cache.ListerWatcher
	Accounts coreinformers.ServiceAccountInformer
	Issuer   Issuer
	// CA is the cluster's authority, as PEM.
	CA     []byte
	Logger *slog.Logger
}

// Controller fills the Secrets.
type Controller struct {
	Config
	secrets cache.SharedIndexInformer
	queue   workqueue.TypedRateLimitingInterface[key]
	handled cache.ResourceEventHandlerRegistration
}

// key is a Secret, and whose token it holds.
type key struct {
	namespace, name, account string
	accountUID               types.UID // empty: whoever has the name
}

// byAccount is the index of Secrets by namespace and name of their service account.
const byAccount = "account"

// workers fill Secrets at the same time.
const workers = 2

// New registers for service accounts. It starts nothing.
func New(c Config) (*Controller, error) {
	out := &Controller{
		Config: c,
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[key]()),
		secrets: cache.NewSharedIndexInformer(c.Secrets, &corev1.Secret{}, 0, cache.Indexers{byAccount: func(obj any) ([]string, error) {
			s := obj.(*corev1.Secret)
			return []string{s.Namespace + "/" + s.Annotations[corev1.ServiceAccountNameKey]}, nil
		}}),
	}
	if _, err := out.secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    out.add,
		UpdateFunc: func(_, now any) { out.add(now) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			out.add(obj)
		},
	}); err != nil {
		return nil, err
	}
	var err error
	// A service account that comes back under its name has another UID.
	out.handled, err = c.Accounts.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: out.addOf,
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			out.addOf(obj)
		},
	})
	return out, err
}

func (c *Controller) add(obj any) {
	if s, ok := obj.(*corev1.Secret); ok && s.Type == corev1.SecretTypeServiceAccountToken {
		c.queue.Add(key{s.Namespace, s.Name, s.Annotations[corev1.ServiceAccountNameKey], types.UID(s.Annotations[corev1.ServiceAccountUIDKey])})
	}
}

func (c *Controller) addOf(obj any) {
	account, ok := obj.(*corev1.ServiceAccount)
	if !ok {
		return
	}
	secrets, err := c.secrets.GetIndexer().ByIndex(byAccount, account.Namespace+"/"+account.Name)
	if err != nil {
		return // the index is there
	}
	for _, s := range secrets {
		c.add(s)
	}
}

// Run fills Secrets until ctx ends. The informer of service accounts is run by its owner.
func (c *Controller) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	defer c.queue.ShutDown()
	all.Go(func() { c.secrets.Run(ctx.Done()) })
	if !cache.WaitForCacheSync(ctx.Done(), c.secrets.HasSynced, c.handled.HasSynced) {
		return
	}
	for range workers {
		all.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
}

func (c *Controller) next(ctx context.Context) bool {
	k, stop := c.queue.Get()
	if stop {
		return false
	}
	defer c.queue.Done(k)
	if err := c.sync(ctx, k); err != nil && ctx.Err() == nil {
		c.Logger.Warn("a Secret of a service account's token is not as it should be; it is tried again", "namespace", k.namespace, "secret", k.name, "serviceAccount", k.account, "error", err)
		c.queue.AddRateLimited(k)
		return true
	}
	c.queue.Forget(k)
	return true
}

// sync looks at a Secret as it is now.
func (c *Controller) sync(ctx context.Context, k key) error {
	secret, err := c.Client.Secrets(k.namespace).Get(ctx, k.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return c.forget(ctx, k)
	}
	if err != nil {
		return err
	}
	if secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil {
		return nil
	}
	name, uid := secret.Annotations[corev1.ServiceAccountNameKey], secret.Annotations[corev1.ServiceAccountUIDKey]
	account, err := c.Client.ServiceAccounts(k.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && uid != "" && uid != string(account.UID):
		// Another state of the Secret may name another service account.
		err = c.Client.Secrets(k.namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	case err != nil:
		return err
	}
	return c.fill(ctx, account, secret)
}

// fill writes what a Secret lacks.
func (c *Controller) fill(ctx context.Context, account *corev1.ServiceAccount, secret *corev1.Secret) error {
	needsCA := !bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], c.CA)
	needsNamespace := len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0
	needsToken := len(secret.Data[corev1.ServiceAccountTokenKey]) == 0
	if !needsCA && !needsNamespace && !needsToken {
		return nil
	}
	if secret.Immutable != nil && *secret.Immutable {
		c.Logger.Warn("a Secret of a service account's token is immutable and cannot be filled: make another that is not", "namespace", secret.Namespace, "secret", secret.Name)
		return nil
	}
	secret = secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if needsCA {
		secret.Data[corev1.ServiceAccountRootCAKey] = c.CA
	}
	if needsNamespace {
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if needsToken {
		token, err := c.Issuer.IssueLegacy(account, secret)
		if err != nil {
			return fmt.Errorf("issue its token: %w", err)
		}
		secret.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	secret.Annotations[corev1.ServiceAccountNameKey] = account.Name
	secret.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	_, err := c.Client.Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // its next state comes
	}
	return err
}

// forget takes a Secret that is gone out of its service account's list.
func (c *Controller) forget(ctx context.Context, k key) error {
	account, err := c.Client.ServiceAccounts(k.namespace).Get(ctx, k.account, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && k.accountUID != "" && k.accountUID != account.UID {
		return nil
	}
	if err != nil {
		return err
	}
	named := func(r corev1.ObjectReference) bool { return r.Name == k.name }
	if !slices.ContainsFunc(account.Secrets, named) {
		return nil
	}
	account = account.DeepCopy()
	account.Secrets = slices.DeleteFunc(account.Secrets, named)
	_, err = c.Client.ServiceAccounts(k.namespace).Update(ctx, account, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		return errors.Join(errors.New("its service account has changed meanwhile"), err)
	}
	return err
}
