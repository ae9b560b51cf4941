package csr

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/sdk/controller"
)

const (
	cleanEach = time.Hour
	keepDone  = time.Hour      // issued, denied and failed ones
	keepOpen  = 24 * time.Hour // undecided ones, and approved ones without a certificate
	page      = 500            // objects in an answer
)

type cleaner struct {
	client kubernetes.Interface
	log    *slog.Logger
}

// NewCleaner builds csrcleaner.
func NewCleaner(c *controller.Context) (controller.Runner, error) {
	if len(c.Config) > 0 && strings.TrimSpace(string(c.Config)) != "{}" {
		return nil, errors.New("csrcleaner has no configuration")
	}
	return &cleaner{client: c.Client, log: c.Logger}, nil
}

// Run cleans each hour until ctx ends.
func (c *cleaner) Run(ctx context.Context) error {
	ticker := time.NewTicker(cleanEach)
	defer ticker.Stop()
	for {
		if err := c.clean(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("not all old certificate signing requests are deleted; the next look is in an hour", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (c *cleaner) clean(ctx context.Context) error {
	requests := c.client.CertificatesV1().CertificateSigningRequests()
	o := metav1.ListOptions{Limit: page}
	var faults []error
	for {
		list, err := requests.List(ctx, o)
		if err != nil {
			return errors.Join(append(faults, fmt.Errorf("list certificate signing requests: %w", err))...)
		}
		for i := range list.Items {
			r := &list.Items[i]
			why := over(r, time.Now())
			if why == "" {
				continue
			}
			// One of the same name may have been made since.
			err := requests.Delete(ctx, r.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				faults = append(faults, fmt.Errorf("unable to delete CSR %q: %w", r.Name, err))
				continue
			}
			c.log.Info("an old certificate signing request is deleted", "request", r.Name, "reason", why)
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return errors.Join(faults...)
		}
	}
}

// over says why a request need not be kept, or nothing.
func over(r *certificatesv1.CertificateSigningRequest, now time.Time) string {
	old := func(t metav1.Time, than time.Duration) bool { return !t.IsZero() && now.Sub(t.Time) > than }
	has := func(t certificatesv1.RequestConditionType, than time.Duration) bool {
		return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == t && (than == 0 || old(c.LastUpdateTime, than))
		})
	}
	issued := len(r.Status.Certificate) > 0
	switch {
	case issued && has(certificatesv1.CertificateApproved, keepDone):
		return "its certificate was issued"
	case has(certificatesv1.CertificateDenied, keepDone):
		return "it was denied"
	case has(certificatesv1.CertificateFailed, keepDone):
		return "it has failed"
	case len(r.Status.Conditions) == 0 && old(r.CreationTimestamp, keepOpen):
		return "nobody decided about it"
	case issued && has(certificatesv1.CertificateApproved, 0) && expired(r.Status.Certificate, now):
		return "its certificate has expired"
	case !issued && has(certificatesv1.CertificateApproved, keepOpen):
		return "it was approved but no signer issued its certificate"
	}
	return ""
}

func expired(certificate []byte, now time.Time) bool {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return false
	}
	list, err := x509.ParseCertificates(block.Bytes)
	return err == nil && len(list) > 0 && now.After(list[0].NotAfter)
}
