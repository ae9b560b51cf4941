package certificates

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pintle.dev/pintle/kernel/api/resources"
)

const (
	// legacySigner signed for what had no signer before v1, where none may ask for it.
	legacySigner = "kubernetes.io/legacy-unknown"
	// leastDuration, in seconds, is what a certificate may be asked for.
	leastDuration = 600
	// mostBits is what crypto/tls takes of RSA keys.
	mostBits = 8192
)

var (
	specPath        = field.NewPath("spec")
	conditionsPath  = field.NewPath("status", "conditions")
	certificatePath = field.NewPath("status", "certificate")
)

// usages are those a certificate may have, in the order of their names.
var usages = func() []certificatesv1.KeyUsage {
	out := []certificatesv1.KeyUsage{
		certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature, certificatesv1.UsageContentCommitment,
		certificatesv1.UsageKeyEncipherment, certificatesv1.UsageKeyAgreement, certificatesv1.UsageDataEncipherment,
		certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign, certificatesv1.UsageEncipherOnly,
		certificatesv1.UsageDecipherOnly, certificatesv1.UsageAny, certificatesv1.UsageServerAuth,
		certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning, certificatesv1.UsageEmailProtection,
		certificatesv1.UsageSMIME, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
		certificatesv1.UsageIPsecUser, certificatesv1.UsageTimestamping, certificatesv1.UsageOCSPSigning,
		certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC,
	}
	slices.Sort(out)
	return out
}()

// changes are what the subresource of an update may change.
type changes struct{ approval, certificate bool }

// tolerance is what an update leaves alone, since the stored request has it.
type tolerance struct {
	legacySigner, unknownUsages, doubleUsages        bool
	emptyConditions, doubleConditions, bothDecisions bool
	anyCertificate                                   bool
}

// ParseRequest reads the one block of PEM that a request is of. Its signature can be
// checked in milliseconds.
func ParseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	// To check the signature of a key of a million bits takes minutes.
	if key, ok := r.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > mostBits {
		return nil, fmt.Errorf("RSA keys have at most %d bits, this one has %d", mostBits, key.N.BitLen())
	}
	return r, nil
}

// anyName: requests are called as their makers like.
func anyName(string, bool) []string { return nil }

func validateCreate(o *certificatesv1.CertificateSigningRequest) field.ErrorList {
	return validate(o, tolerance{})
}

func validate(o *certificatesv1.CertificateSigningRequest, leave tolerance) field.ErrorList {
	errs := resources.ValidateMeta(&o.ObjectMeta, false, anyName)
	if err := signedRequest(o.Spec.Request); err != nil {
		errs = append(errs, field.Invalid(specPath.Child("request"), o.Spec.Request, err.Error()))
	}
	path := specPath.Child("usages")
	if len(o.Spec.Usages) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	for i, u := range o.Spec.Usages {
		if !leave.unknownUsages && !slices.Contains(usages, u) {
			errs = append(errs, field.NotSupported(path.Index(i), u, usages))
		}
		if !leave.doubleUsages && slices.Contains(o.Spec.Usages[:i], u) {
			errs = append(errs, field.Duplicate(path.Index(i), u))
		}
	}
	if signer := specPath.Child("signerName"); !leave.legacySigner && o.Spec.SignerName == legacySigner {
		errs = append(errs, field.Invalid(signer, o.Spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, validateSignerName(o.Spec.SignerName, signer)...)
	}
	if s := o.Spec.ExpirationSeconds; s != nil && *s < leastDuration {
		errs = append(errs, field.Invalid(specPath.Child("expirationSeconds"), *s, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	errs = append(errs, validateConditions(o.Status.Conditions, leave)...)
	if !leave.anyCertificate {
		if err := certificateFault(o.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(certificatePath, "<certificate data>", err.Error()))
		}
	}
	return errs
}

// signedRequest wants a request that is signed by the key that it is for.
func signedRequest(data []byte) error {
	r, err := ParseRequest(data)
	if err != nil {
		return err
	}
	return r.CheckSignature()
}

// validateSignerName: a domain of two labels at least, and a path of one part.
func validateSignerName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	domain, rest, _ := strings.Cut(name, "/")
	if strings.Count(name, "/") != 1 {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	const most = validation.DNS1123SubdomainMaxLength
	if len(domain) > most {
		errs = append(errs, field.TooLong(path, "", most))
	}
	// One label that is wrong is told of: the messages about others would be the same.
	labels := func(part string, check func(string) []string) int {
		list := strings.Split(part, ".")
		for _, label := range list {
			msgs := check(label)
			for _, msg := range msgs {
				errs = append(errs, field.Invalid(path, part, fmt.Sprintf("validating label %q: %s", label, msg)))
			}
			if len(msgs) > 0 {
				break
			}
		}
		return len(list)
	}
	if labels(domain, validation.IsDNS1123Label) < 2 {
		errs = append(errs, field.Invalid(path, domain, "should be a domain with at least two segments separated by dots"))
	}
	labels(rest, validation.IsDNS1123Subdomain)
	// The path has room for the name of an object and of its namespace.
	const mostOfAll = most + 1 + most + validation.DNS1123LabelMaxLength + 1
	if len(name) > mostOfAll {
		errs = append(errs, field.TooLong(path, "", mostOfAll))
	}
	return errs
}

func validateConditions(list []certificatesv1.CertificateSigningRequestCondition, leave tolerance) field.ErrorList {
	var errs field.ErrorList
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, c := range list {
		path := conditionsPath.Index(i)
		if c.Type == "" && !leave.emptyConditions {
			errs = append(errs, field.Required(path.Child("type"), ""))
		}
		statuses := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		switch c.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			statuses = []corev1.ConditionStatus{corev1.ConditionTrue} // it is so, or is not said
		}
		if c.Status == "" {
			errs = append(errs, field.Required(path.Child("status"), ""))
		} else if !slices.Contains(statuses, c.Status) {
			errs = append(errs, field.NotSupported(path.Child("status"), c.Status, statuses))
		}
		if !leave.bothDecisions &&
			(c.Type == certificatesv1.CertificateApproved && seen[certificatesv1.CertificateDenied] ||
				c.Type == certificatesv1.CertificateDenied && seen[certificatesv1.CertificateApproved]) {
			errs = append(errs, field.Invalid(conditionsPath, c.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if seen[c.Type] && !leave.doubleConditions {
			errs = append(errs, field.Duplicate(path.Child("type"), c.Type))
		}
		seen[c.Type] = true
	}
	return errs
}

// certificateFault says what is wrong with an issued certificate and its chain.
func certificateFault(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	found := false
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) != 0 {
			return errors.New("no PEM block headers are permitted")
		}
		list, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		found, data = true, rest
	}
	if !found {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

func toleranceOf(o, old *certificatesv1.CertificateSigningRequest) tolerance {
	out := tolerance{
		legacySigner: old.Spec.SignerName == legacySigner,
		bothDecisions: len(conditionsOf(old, certificatesv1.CertificateApproved)) > 0 &&
			len(conditionsOf(old, certificatesv1.CertificateDenied)) > 0,
		anyCertificate: bytes.Equal(o.Status.Certificate, old.Status.Certificate) || certificateFault(old.Status.Certificate) != nil,
	}
	for i, u := range old.Spec.Usages {
		out.unknownUsages = out.unknownUsages || !slices.Contains(usages, u)
		out.doubleUsages = out.doubleUsages || slices.Contains(old.Spec.Usages[:i], u)
	}
	seen := map[certificatesv1.RequestConditionType]bool{}
	for _, c := range old.Status.Conditions {
		out.emptyConditions = out.emptyConditions || c.Type == ""
		out.doubleConditions = out.doubleConditions || seen[c.Type]
		seen[c.Type] = true
	}
	return out
}

func validateUpdate(o, old *certificatesv1.CertificateSigningRequest, may changes) field.ErrorList {
	errs := validate(o, toleranceOf(o, old))
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		before, after := conditionsOf(old, t), conditionsOf(o, t)
		switch {
		case len(after) < len(before):
			errs = append(errs, field.Forbidden(conditionsPath, fmt.Sprintf("updates may not remove a condition of type %q", t)))
		case t == certificatesv1.CertificateFailed || may.approval:
		case len(after) > len(before):
			errs = append(errs, field.Forbidden(conditionsPath, fmt.Sprintf("updates may not add a condition of type %q", t)))
		case !apiequality.Semantic.DeepEqual(before, after):
			errs = append(errs, field.Forbidden(conditionsPath, fmt.Sprintf("updates may not modify a condition of type %q\n%v", t, diff.Diff(before, after))))
		}
	}
	if !bytes.Equal(o.Status.Certificate, old.Status.Certificate) {
		if !may.certificate {
			errs = append(errs, field.Forbidden(certificatePath, "updates may not set certificate content"))
		} else if len(old.Status.Certificate) > 0 {
			errs = append(errs, field.Forbidden(certificatePath, "updates may not modify existing certificate content"))
		}
	}
	return append(errs, resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)...)
}
