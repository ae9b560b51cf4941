package csrsigning

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/resources/certificates"
)

// User is who the certificates are written as.
const User = "system:serviceaccount:kube-system:certificate-controller"

// Authority signs; *pki.PKI does.
type Authority interface {
	SignRequest(pki.Request) ([]byte, error)
}

// Config of a Controller; all of it is required.
type Config struct {
	Client certificatesclient.CertificateSigningRequestsGetter
	// Requests lists and watches CertificateSigningRequests.
	Requests  cache.ListerWatcher
	Authority Authority
	// Duration is the longest that a certificate lives.
	Duration time.Duration
	Logger   *slog.Logger
}

// Controller signs requests.
type Controller struct {
	Config
	requests cache.SharedIndexInformer
	handled  cache.ResourceEventHandlerRegistration
	queue    workqueue.TypedRateLimitingInterface[string]
}

const (
	workers = 5
	// tries at a request that others change meanwhile, by the same certificate.
	tries = 5
)

// New makes a controller for one Run. It starts nothing.
func New(c Config) (*Controller, error) {
	out := &Controller{
		Config:   c,
		requests: cache.NewSharedIndexInformer(c.Requests, &certificatesv1.CertificateSigningRequest{}, 0, cache.Indexers{}),
		// Upstream's: how soon and how rarely a request is tried again, and all of them.
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedMaxOfRateLimiter[string](
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 1000*time.Second),
			&workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(10, 100)},
		)),
	}
	var err error
	out.handled, err = out.requests.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: out.add, UpdateFunc: func(_, now any) { out.add(now) },
	})
	return out, err
}

func (c *Controller) add(obj any) {
	if r, ok := obj.(*certificatesv1.CertificateSigningRequest); ok && waits(r) {
		c.queue.Add(r.Name)
	}
}

// waits says whether the controller must still sign or refuse a request.
func waits(r *certificatesv1.CertificateSigningRequest) bool {
	return signers[r.Spec.SignerName] != nil && len(r.Status.Certificate) == 0 &&
		has(r, certificatesv1.CertificateApproved) && !has(r, certificatesv1.CertificateDenied) && !failed(r)
}

func has(r *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == t })
}

func failed(r *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateFailed && (c.Status == "" || c.Status == corev1.ConditionTrue)
	})
}

// Run signs until ctx ends. Call it once.
func (c *Controller) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	defer c.queue.ShutDown()
	all.Go(func() { c.requests.Run(ctx.Done()) })
	if !cache.WaitForCacheSync(ctx.Done(), c.handled.HasSynced) {
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
	name, stop := c.queue.Get()
	if stop {
		return false
	}
	defer c.queue.Done(name)
	if err := c.sync(ctx, name); err != nil && ctx.Err() == nil {
		c.Logger.Warn("a certificate signing request is not signed; it is tried again", "request", name, "error", err)
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	return true
}

func (c *Controller) sync(ctx context.Context, name string) error {
	obj, ok, err := c.requests.GetStore().GetByKey(name)
	if err != nil || !ok {
		return err
	}
	r := obj.(*certificatesv1.CertificateSigningRequest)
	if !waits(r) {
		return nil
	}
	certificate, err := c.sign(r)
	if why := (*pki.Refusal)(nil); errors.As(err, &why) {
		c.Logger.Info("a certificate signing request is not one that its signer signs", "request", name, "signer", r.Spec.SignerName, "reason", why)
		return c.write(ctx, r, func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue,
				Reason: "SignerValidationFailure", Message: why.Error(), LastUpdateTime: metav1.Now(),
			})
		})
	}
	if err != nil {
		return fmt.Errorf("error auto signing csr: %w", err)
	}
	return c.write(ctx, r, func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = certificate })
}

// sign gives the certificate; the error is a *pki.Refusal where there is to be none.
func (c *Controller) sign(r *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	asked, err := certificates.ParseRequest(r.Spec.Request)
	if err != nil {
		return nil, fmt.Errorf("unable to parse csr %q: %w", r.Name, err)
	}
	if err := signers[r.Spec.SignerName](asked, r.Spec.Usages); err != nil {
		return nil, pki.Refuse(err)
	}
	usage, extended, err := usagesOf(r.Spec.Usages)
	if err != nil {
		return nil, err
	}
	notBefore, notAfter := validity(time.Now(), c.Duration, r.Spec.ExpirationSeconds)
	return c.Authority.SignRequest(pki.Request{
		CSR: asked, UID: string(r.UID), Requestor: r.Spec.Username, KeyUsage: usage, ExtKeyUsage: extended, NotBefore: notBefore, NotAfter: notAfter,
	})
}

// write changes the status of a request, also where others have changed it since, as
// long as it still waits.
func (c *Controller) write(ctx context.Context, r *certificatesv1.CertificateSigningRequest, change func(*certificatesv1.CertificateSigningRequest)) error {
	requests, uid := c.Client.CertificateSigningRequests(), r.UID
	for try := 1; ; try++ {
		r = r.DeepCopy()
		change(r)
		_, err := requests.UpdateStatus(ctx, r, metav1.UpdateOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) || try == tries {
			return fmt.Errorf("error updating signature for csr: %w", err)
		}
		if r, err = requests.Get(ctx, r.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("error updating signature for csr: %w", err)
		}
		if r.UID != uid || !waits(r) {
			return nil
		}
	}
}
