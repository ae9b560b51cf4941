// Package review serves the virtual resources that ask who one is and what one
// may do: TokenReview and SelfSubjectReview of authentication.k8s.io/v1, and
// SubjectAccessReview, LocalSubjectAccessReview, SelfSubjectAccessReview and
// SelfSubjectRulesReview of authorization.k8s.io/v1.
//
// They are created only, never stored: Create answers with the object whose
// status holds the verdict. Validation and words are upstream's. The package
// holds no state; it must not import the store.
package review
