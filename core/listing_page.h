/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* listing_page.h - the fixed parts of a listing's page: style, script, and the policy that allows
 * nothing else.  Only listing_html.c includes it.
 *
 * Self-contained: no font, image or script comes from elsewhere.  Icons are cut out of boxes by
 * clip-path.  Without the script everything works, the filter as a form, and times are UTC; with it
 * the filter reacts to every key, '/' moves the focus to it, and times are local.
 */
#ifndef CORE_LISTING_PAGE_H
#define CORE_LISTING_PAGE_H

static const char page_style[] =
    "<style>"
    ":root{color-scheme:light dark;--bg:#f6f6f3;--card:#fff;--fg:#1d2024;--dim:#656b73;"
    "--line:#e6e6e1;"
    "--hover:#f3f6fb;--link:#1a4fb4;--folder:#e2a32b;--file:#b9c0c9}"
    "@media(prefers-color-scheme:dark){:root{--bg:#121417;--card:#1a1d21;--fg:#e5e6e3;"
    "--dim:#9aa1aa;--line:#2a2e34;"
    "--hover:#22272e;--link:#93b8ff;--folder:#d9a441;--file:#59616b}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:62rem;padding:clamp(1rem,4vw,2.5rem);background:var(--bg);"
    "color:var(--fg);"
    "font:16px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif}"
    "a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}"
    ":focus-visible{outline:2px solid var(--link);outline-offset:2px;border-radius:4px}"
    "header{display:flex;flex-wrap:wrap;gap:.75rem 1.5rem;align-items:center;"
    "justify-content:space-between}"
    "h1{margin:0;font-size:1.35rem;font-weight:600;overflow-wrap:anywhere;line-height:1.3}"
    "h1 ol{display:flex;flex-wrap:wrap;align-items:center;list-style:none;margin:0;padding:0}"
    "h1 li+li:before{content:'/';color:var(--dim);font-weight:400;margin:0 .4em}"
    "h1 a{font-weight:400}h1 svg{display:block;width:1.25em;height:1.25em;fill:currentColor}"
    "form{display:flex;gap:.5rem;flex:0 1 17rem}"
    "input[type=search],button{font:inherit;color:inherit;background:var(--card);"
    "border:1px solid var(--line);"
    "border-radius:8px;padding:.4rem .75rem}input[type=search]{flex:1;min-width:0}"
    "p{color:var(--dim);margin:.5rem 0 1.1rem;font-size:.9rem}"
    "table{width:100%;border-collapse:separate;border-spacing:0;background:var(--card);"
    "border:1px solid var(--line);border-radius:12px}"
    "caption,.off{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);"
    "white-space:nowrap}"
    "th{position:sticky;top:0;background:var(--card);text-align:left;font-size:.8rem;"
    "font-weight:600;"
    "color:var(--dim);z-index:1}th:first-child{border-top-left-radius:12px}th:last-child{"
    "border-top-right-radius:12px}"
    "th a{color:inherit}th[aria-sort]{color:var(--fg)}"
    "th,td{padding:.5rem 1rem;border-bottom:1px solid var(--line)}tbody tr:last-child td{"
    "border-bottom:0}"
    "tbody tr:hover td{background:var(--hover)}"
    "tbody tr:last-child td:first-child{border-bottom-left-radius:12px}"
    "tbody tr:last-child td:last-child{border-bottom-right-radius:12px}"
    "td:nth-child(2),th:nth-child(2){text-align:right}td+td,th+th{white-space:nowrap;width:1%}"
    "td+td{color:var(--dim);font-variant-numeric:tabular-nums;font-size:.9rem}"
    "td:first-child{overflow-wrap:anywhere;padding-left:2.9rem;position:relative}"
    "td:first-child:before{content:'';position:absolute;left:1.1rem;top:.72rem;width:1.1rem;"
    "height:1.05rem;"
    "background:var(--file);clip-path:polygon(12% 0,62% 0,88% 28%,88% 100%,12% 100%)}"
    ".d td:first-child:before{background:var(--folder);"
    "clip-path:polygon(0 8%,40% 8%,50% 24%,100% 24%,100% 94%,0 94%)}"
    ".up td:first-child:before{background:var(--dim);"
    "clip-path:polygon(50% 8%,92% 52%,62% 52%,62% 96%,38% 96%,38% 52%,8% 52%)}"
    ".o td:first-child:before{clip-path:circle(32%)}.none td{color:var(--dim)}.none td:before{"
    "display:none}"
    "small{color:var(--dim);border:1px solid var(--line);border-radius:5px;padding:0 .35em;"
    "margin-left:.5em;"
    "white-space:nowrap}"
    "form[method]{margin-top:.9rem;padding:.75rem 1rem;background:var(--card);"
    "border:1px dashed var(--line);border-radius:12px}"
    "input[type=file]{flex:1;min-width:0;padding:.4rem 0;font:inherit;color:var(--dim)}"
    "footer{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;justify-content:flex-end;font-size:.85rem;"
    "color:var(--dim);"
    "margin-top:.9rem}"
    "footer span{margin-right:auto}footer a{white-space:nowrap}"
    "main~nav{display:flex;gap:1.2rem;margin-top:.9rem;font-size:.9rem;color:var(--dim);"
    "font-variant-numeric:tabular-nums}"
    "article{background:var(--card);border:1px solid var(--line);border-radius:12px;"
    "margin-top:1.5rem;padding:.25rem 1.5rem .75rem;overflow-wrap:anywhere}"
    "article p{color:inherit;margin:.8rem 0;font-size:1rem}article li{margin:.25rem 0}"
    "article :is(h1,h2,h3,h4,h5,h6){margin:1.3rem 0 .6rem;font-weight:600;line-height:1.3;"
    "font-size:1.05rem}article h1{font-size:1.5rem}article h2{font-size:1.25rem}"
    "pre,code{font:.875rem/1.5 ui-monospace,'Liberation Mono',monospace}"
    "code{background:var(--hover);border-radius:5px;padding:.1em .3em}"
    "pre{margin:.8rem 0;white-space:pre-wrap}pre:has(code){background:var(--hover);"
    "border-radius:8px;padding:.75rem 1rem;overflow-x:auto;white-space:pre}"
    "pre code{background:none;padding:0}hr{border:0;border-top:1px solid var(--line)}"
    "blockquote{margin:.8rem 0;border-left:3px solid var(--line);padding-left:1rem}"
    "@media(max-width:36rem){form{flex:1 1 100%}th,td{padding:.6rem .5rem}time span{display:none}"
    "td:first-child{padding-left:2.4rem}td:first-child:before{left:.8rem;top:.84rem}"
    "th:first-child{padding-left:.8rem}"
    "td:last-child,th:last-child{padding-right:.8rem}input[type=search]{font-size:16px}}"
    "</style>";

static const char page_script[] =
    "<script>"
    "(()=>{const f=document.querySelector('input[type=search]'),n=document.getElementById('n'),"
    "p='page' in f.form.dataset,t=n.textContent,"
    "w=f.value.toLowerCase(),r=[...document.querySelectorAll('tbody tr:not(.up,.none)')].map(e=>"
    "[e,e.querySelector('bdi').textContent.toLowerCase()]);let s;"
    "f.addEventListener('input',()=>{const q=f.value.toLowerCase();let k=0;clearTimeout(s);"
    /* The server left rows out, and others are wanted now.  The fragment lets the next page know
     * that the user is typing. */
    "if(p||!q.includes(w)){s=setTimeout(()=>{f.form.action='#f';f.form.submit()},400);"
    "return}"
    "for(const[e,x]of r){e.hidden=!x.includes(q);if(!e.hidden)k++}"
    "n.textContent=q==w?t:k+' of '+r.length+(r.length==1?' entry':' entries')});"
    "if(location.hash=='#f'){f.focus();f.setSelectionRange(w.length,w.length)}"
    "addEventListener('keydown',e=>{"
    "if(e.key=='/'&&document.activeElement!=f&&!e.ctrlKey&&!e.metaKey){"
    "e.preventDefault();f.focus()}});"
    "const z=x=>(x+'').padStart(2,0);for(const e of document.querySelectorAll('time')){"
    "const d=new Date(e.dateTime);e.title=e.textContent+' UTC';"
    "e.firstChild.data=(d.getFullYear()+'').padStart(4,0)+'-'+z(d.getMonth()+1)+'-'+z(d.getDate());"
    "e.lastChild.textContent=' '+z(d.getHours())+':'+z(d.getMinutes())}"
    "document.querySelector('footer span').textContent='Times are local'})()"
    "</script>";

/* Content-Security-Policy (CSP Level 3): a name that got past the escaping could still run nothing
 * and load nothing.  The hashes are of all bytes between the tags above; test_policy.py says what
 * they should be.  The picture is the empty icon. */
#define PAGE_POLICY \
    "default-src 'none'; " \
    "style-src 'sha256-YLu+VxGzqMpOTm0X2iI/RCHL2zs6qsVMRO+dgxWh7yw='; " \
    "script-src 'sha256-mKjXAfUlCWQnLE4Xm41KI5pnxkaxNazZubBqKKUQlqA='; " \
    "img-src data:; form-action 'self'; base-uri 'none'"

#endif
