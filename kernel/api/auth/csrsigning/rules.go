package csrsigning

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
)

// check says why a signer does not sign a request.
type check func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error

// signers are those of the cluster's authority. Nothing but what the authority itself
// refuses is checked of legacy-unknown, for which the API takes no new request.
var signers = map[string]check{
	certificatesv1.KubeAPIServerClientSignerName:        checkClient,
	certificatesv1.KubeAPIServerClientKubeletSignerName: checkKubeletClient,
	certificatesv1.KubeletServingSignerName:             checkKubeletServing,
	certificatesv1beta1.LegacyUnknownSignerName:         func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil },
}

func checkClient(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

var (
	errOrganization = errors.New("subject organization is not system:nodes")
	errCommonName   = errors.New("subject common name does not begin with system:node:") //nolint:revive // upstream's words
	errNamesWanted  = errors.New("DNS or IP subjectAltName is required")
	errDNS          = errors.New("DNS subjectAltNames are not allowed")
	errEmail        = errors.New("Email subjectAltNames are not allowed") //nolint:staticcheck // upstream's words
	errIP           = errors.New("IP subjectAltNames are not allowed")
	errURI          = errors.New("URI subjectAltNames are not allowed")
)

func checkKubeletClient(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !ofNodes(r):
		return errOrganization
	case len(r.DNSNames) > 0:
		return errDNS
	case len(r.EmailAddresses) > 0:
		return errEmail
	case len(r.IPAddresses) > 0:
		return errIP
	case len(r.URIs) > 0:
		return errURI
	case !namesNode(r):
		return errCommonName
	}
	return checkNodeUsages(usages, certificatesv1.UsageClientAuth)
}

func checkKubeletServing(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !ofNodes(r):
		return errOrganization
	case len(r.DNSNames)+len(r.IPAddresses) == 0:
		return errNamesWanted
	case len(r.EmailAddresses) > 0:
		return errEmail
	case len(r.URIs) > 0:
		return errURI
	}
	if err := checkNodeUsages(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	if !namesNode(r) {
		return errCommonName
	}
	return nil
}

func ofNodes(r *x509.CertificateRequest) bool {
	return slices.Equal(r.Subject.Organization, []string{"system:nodes"})
}

func namesNode(r *x509.CertificateRequest) bool {
	return strings.HasPrefix(r.Subject.CommonName, "system:node:")
}

// checkNodeUsages wants digital signature and one more, with or without key
// encipherment, which keys other than RSA do not do.
func checkNodeUsages(usages []certificatesv1.KeyUsage, one certificatesv1.KeyUsage) error {
	want := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, one}
	for _, u := range usages {
		if !slices.Contains(want, u) {
			return fmt.Errorf("usages did not match %v", want)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageDigitalSignature) || !slices.Contains(usages, one) {
		return fmt.Errorf("usages did not match %v", want)
	}
	return nil
}

var keyUsages = map[certificatesv1.KeyUsage]x509.KeyUsage{
	certificatesv1.UsageSigning:           x509.KeyUsageDigitalSignature,
	certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
	certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment,
	certificatesv1.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
	certificatesv1.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
	certificatesv1.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
	certificatesv1.UsageCertSign:          x509.KeyUsageCertSign,
	certificatesv1.UsageCRLSign:           x509.KeyUsageCRLSign,
	certificatesv1.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
	certificatesv1.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
}

var extKeyUsages = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
	certificatesv1.UsageAny:             x509.ExtKeyUsageAny,
	certificatesv1.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
	certificatesv1.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
	certificatesv1.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
	certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
	certificatesv1.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
	certificatesv1.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
	certificatesv1.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
	certificatesv1.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
	certificatesv1.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
	certificatesv1.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
}

// usagesOf are those of a certificate.
func usagesOf(list []certificatesv1.KeyUsage) (x509.KeyUsage, []x509.ExtKeyUsage, error) {
	var usage x509.KeyUsage
	var extended []x509.ExtKeyUsage
	var unknown []certificatesv1.KeyUsage
	for _, u := range list {
		if k, ok := keyUsages[u]; ok {
			usage |= k
		} else if k, ok := extKeyUsages[u]; !ok {
			unknown = append(unknown, u)
		} else if !slices.Contains(extended, k) {
			extended = append(extended, k)
		}
	}
	if len(unknown) > 0 {
		return 0, nil, fmt.Errorf("unrecognized usage values: %q", unknown)
	}
	slices.Sort(extended)
	return usage, extended, nil
}

const (
	// backdate lets clocks that run behind take a new certificate.
	backdate = 5 * time.Minute
	// short is the life from which on the backdating is part of it.
	short = 8 * time.Hour
	// least is what the shortest certificate lives.
	least = 10 * time.Minute
)

// validity is from when and until when a certificate is good.
func validity(now time.Time, most time.Duration, seconds *int32) (notBefore, notAfter time.Time) {
	life := most
	if seconds != nil {
		life = min(max(time.Duration(*seconds)*time.Second, least), most)
	}
	notBefore, notAfter = now.Add(-backdate), now.Add(life)
	if life >= short {
		notAfter = notAfter.Add(-backdate)
	}
	return notBefore, notAfter
}
