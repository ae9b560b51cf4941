// Package limitranger is the admission plugin LimitRanger: containers get the
// default requests and limits of the namespace's LimitRanges, and containers,
// pods and claims have to keep their minima, maxima and ratios.
package limitranger
