#!/usr/bin/awk -f
# SPDX-License-Identifier: Apache-2.0
# What Doxygen reads of a header: its first comment becomes the text of a group named after the header, which holds all of it. Of
# the kernel dialect that comment is the reference.
BEGIN {
    name = ARGV[1]
    sub(/.*\//, "", name)
    sub(/\.h$/, "", name)
    dialect = name == "k"
}
{ gsub(/<name>/, "\\<name\\>") }
NR == 1 && /SPDX/ {
    print "/** @addtogroup " name (dialect ? "\n@verbatim" : "")
    first = 1
    next
}
first && /\*\/$/ {
    sub(/\*\/$/, "")
    sub(/^ \*? ?/, "")
    print
    print (dialect ? "@endverbatim" : "@{") "\n*/"
    first = 0
    open = !dialect
    if (dialect) exit
    next
}
first { sub(/^ \* ?/, "") }
{ print }
END { if (open) print "/** @} */" }
